// The box for a question, where to look, and the first screen.

import { html, useContext, useEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { getJson } from "/static/requests.js";
import { CLOSED, Page } from "/static/state.js";

const FIELDS = ["folder", "kind", "from", "to", "mode"];

function Filters({ state, kinds }) {
  const set = FIELDS.filter((name) => state[name]);
  return html`<details class="filters" open=${set.length > 0}>
    <summary>Where to look</summary>
    <div class="fields">
      <label>Folder <input name="folder" defaultValue=${state.folder} placeholder="reports/2024" /></label>
      <label>Kind
        <select name="kind">
          <option value="">any</option>
          ${kinds.map((kind) => html`<option value=${kind} selected=${kind === state.kind}>${kind}</option>`)}
        </select>
      </label>
      <label>Dated from <input name="from" type="date" defaultValue=${state.from} /></label>
      <label>Dated to <input name="to" type="date" defaultValue=${state.to} /></label>
      <label>Search by
        <select name="mode">
          <option value="" selected=${!state.mode}>meaning and words</option>
          <option value="dense" selected=${state.mode === "dense"}>meaning</option>
          <option value="lexical" selected=${state.mode === "lexical"}>words</option>
        </select>
      </label>
    </div>
  </details>`;
}

export function Composer({ input }) {
  const { state, status, go } = useContext(Page);
  const follows = state.questions.length > 0;
  const submit = (event) => {
    event.preventDefault();
    const { q, ...fields } = Object.fromEntries(new FormData(event.target));
    if (!q.trim()) return;
    event.target.elements.q.value = "";
    go({ ...fields, questions: [...state.questions, q.trim()], view: "", ...CLOSED });
  };
  return html`<form class="ask" role="search" onSubmit=${submit}>
    ${state.in &&
    html`<p class="quiet">Only in ${state.in}
      <button type="button" class="small" onClick=${() => go({ in: "" })}>Search everywhere</button></p>`}
    <div class="row">
      <label for="q" class="hidden">Question</label>
      <input
        id="q"
        name="q"
        type="search"
        ref=${input}
        maxlength="10000"
        placeholder=${follows ? "Ask a follow-up" : "Ask your documents"}
        autocomplete="off"
        enterkeyhint="search"
        aria-keyshortcuts="/"
      />
      <button class="primary">Ask</button>
    </div>
    <${Filters} key=${FIELDS.map((name) => state[name]).join()} state=${state} kinds=${Object.keys(status?.kinds || {})} />
  </form>`;
}

export function Home({ composer }) {
  const { index, status, server, linkTo } = useContext(Page);
  const [documents, setDocuments] = useState([]);
  useEffect(() => {
    setDocuments([]);
    if (status?.documents) getJson("/api/summaries", { index }).then((reply) => setDocuments(reply.documents), () => {});
  }, [index, status?.generation]);
  const empty = status && !status.documents;
  return html`<div class="home">
    <h2>Ask ${status ? html`<b>${index}</b>` : "your documents"}</h2>
    <p class="quiet">
      ${empty
        ? "There are no documents yet."
        : status
          ? `Answers quote exact passages of ${count(status.documents, "document")}.`
          : "Answers quote exact passages of your documents."}
    </p>
    ${empty &&
    !status.indexing &&
    html`<p>${server?.writable ? "Drop files anywhere on this page, or add some under Documents." : html`Add some with <code>lmkrag index FOLDER --index INDEX</code>`}</p>`}
    ${!empty && composer}
    ${documents.length > 0 &&
    html`<h3>What is here</h3>
      <ul class="contents">
        ${documents.map(
          ({ doc_id, title, summary }) => html`<li>
            <a ...${linkTo({ doc: doc_id, start: null, end: null })}>${doc_id}</a>
            ${isNamed(title, doc_id) && html` <span>${title}</span>`}
            ${summary && html`<p class="quiet">${summary}</p>`}
          </li>`,
        )}
      </ul>`}
    ${status?.changed &&
    html`<p class="quiet"><a ...${linkTo({ view: "documents" })}>All documents</a>, updated ${ago(status.changed)}</p>`}
  </div>`;
}

// Whether a title says more than the name of the file.
export const isNamed = (title, docId) => title && title !== docId.split("/").at(-1).replace(/\.\w+$/, "");

export const count = (number, noun) => `${number.toLocaleString()} ${noun}${number === 1 ? "" : "s"}`;

export function ago(time) {
  const minutes = Math.round((Date.now() - Date.parse(time)) / 60_000);
  if (minutes < 1) return "just now";
  const format = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  if (minutes < 60) return format.format(-minutes, "minute");
  if (minutes < 36 * 60) return format.format(-Math.round(minutes / 60), "hour");
  return format.format(-Math.round(minutes / 1440), "day");
}
