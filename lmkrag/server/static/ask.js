// The box for a question, where to look, and the first screen.

import { html, useContext, useEffect, useState } from "/static/vendor/htm-preact.js";
import { getJson } from "/static/requests.js";
import { ALL, CLOSED, Page } from "/static/state.js";

const PERIODS = { week: 7, month: 30, year: 365 }; // days
const MODES = { "": "Meaning and words", dense: "Meaning", lexical: "Words" };
const POLL = 4000; // milliseconds between two looks at questions that are still being tried

const daysAgo = (days) => new Date(Date.now() - 86_400_000 * days).toISOString().slice(0, 10);

// A choice that is a chip: what stands in it is what is chosen.
function Chip({ label, value, choices, onChoose }) {
  return html`<select class="chip" aria-label=${label} onChange=${(event) => onChoose(event.target.value)}
    data-set=${value ? "" : null}>
    ${Object.entries(choices).map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}
  </select>`;
}

// A choice takes effect at once, on the question that is shown.
function Filters({ folders }) {
  const { state, status, go } = useContext(Page);
  const [dates, setDates] = useState(false);
  const listed = (first, names) => Object.fromEntries([["", first], ...names.filter(Boolean).map((name) => [name, name])]);
  const kinds = [...new Set([...Object.keys(status?.kinds || {}), state.kind])];
  const within = [...new Set([...folders, state.folder])];
  const limited = state.from || state.to;
  const named = Object.keys(PERIODS).find((name) => !state.to && state.from === daysAgo(PERIODS[name]));
  const period = dates || (limited && !named) ? "dates" : named || "";
  const choosePeriod = (name) => {
    setDates(name === "dates");
    if (name !== "dates") go({ from: name && daysAgo(PERIODS[name]), to: "" });
  };
  const day = (name, label) =>
    html`<label>${label} <input type="date" value=${state[name]} onChange=${(event) => go({ [name]: event.target.value })} /></label>`;
  return html`<div class="chips" role="group" aria-label="Where to look">
    <${Chip} label="Kind" value=${state.kind} choices=${listed("Any kind", kinds)} onChoose=${(kind) => go({ kind })} />
    ${within.some(Boolean) &&
    html`<${Chip} label="Folder" value=${state.folder} choices=${listed("Any folder", within)} onChoose=${(folder) => go({ folder })} />`}
    <${Chip} label="Time" value=${period} onChoose=${choosePeriod}
      choices=${{ "": "Any time", week: "Past week", month: "Past month", year: "Past year", dates: "Dates…" }} />
    ${period === "dates" && [day("from", "from"), day("to", "to")]}
    <${Chip} label="Search by" value=${state.mode} choices=${MODES} onChoose=${(mode) => go({ mode })} />
    ${state.in && html`<span class="chip" data-set>Only in ${state.in}
      <button type="button" onClick=${() => go({ in: "" })}>Search everywhere</button></span>`}
    ${(state.kind || state.folder || limited || state.mode) &&
    html`<button type="button" class="small" onClick=${() => go({ kind: "", folder: "", from: "", to: "", mode: "" })}>Clear</button>`}
  </div>`;
}

export function Composer({ input, folders }) {
  const { state, go } = useContext(Page);
  const follows = state.questions.length > 0;
  const submit = (event) => {
    event.preventDefault();
    const { q } = event.target.elements;
    const question = q.value.trim();
    if (!question) return;
    q.value = "";
    go({ questions: [...state.questions, question], view: "", ...CLOSED });
  };
  return html`<form class="ask" role="search" onSubmit=${submit}>
    <div class="row"><label for="q" class="hidden">Question</label>
      <input id="q" name="q" type="search" ref=${input} maxlength="10000" autocomplete="off" enterkeyhint="search"
        aria-keyshortcuts="/ Control+K" placeholder=${follows ? "Ask a follow-up" : "Ask your documents"} />
      <button class="primary">Ask</button>
    </div>
    <${Filters} folders=${folders} />
  </form>`;
}

// The first screens of the indexes, each with its name, again while their questions are being tried.
export function useOverviews(names, status) {
  const [overviews, setOverviews] = useState([]);
  useEffect(() => {
    if (!status) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const load = async () => {
      const read = async (index) => {
        const reply = await getJson("/api/overview", { index }, abort.signal);
        // an object of JavaScript has the names first that are numbers
        const folders = Object.entries(reply.folders).sort(([, one], [, other]) => other - one);
        return { ...reply, index, folders };
      };
      const replies = await Promise.all(names.map(read));
      setOverviews(replies);
      if (replies.some((reply) => reply.preparing)) timer = setTimeout(load, POLL);
    };
    load().catch(() => {}); // the page says elsewhere that the server can't be reached
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [names.join(), status?.generation, Boolean(status?.indexing)]);
  return overviews.filter((reply) => names.includes(reply.index));
}

export function Home({ composer, overviews }) {
  const { state, index, status, server, indexing, go, linkTo } = useContext(Page);
  const empty = status && !status.documents;
  const everywhere = index === ALL;
  const questions = overviews.flatMap((one) => one.questions).slice(0, 3);
  const recent = overviews.flatMap((one) => one.recent.map((info) => ({ ...info, of: everywhere ? one.index : "" }))).slice(0, 6);
  const folders = overviews.flatMap((one) => one.folders);
  return html`<div class="home">
    <h2>Ask ${status ? html`<b>${everywhere ? "all indexes" : index}</b>` : "your documents"}</h2>
    <p class="quiet">
      ${empty
        ? "There are no documents yet."
        : status
          ? `Answers quote exact passages of ${count(status.documents, "document")}.`
          : "Answers quote exact passages of your documents."}
    </p>
    ${empty &&
    !indexing &&
    html`<p>${server?.writable ? "Drop files anywhere on this page, or add some under Documents." : html`Add some with <code>lmkrag index FOLDER --index INDEX</code>`}</p>`}
    ${(!empty || indexing) && composer}
    ${questions.length > 0 &&
    html`<h3>Try one of these</h3>
      <ul class="starters">
        ${questions.map((question) => html`<li><a ...${linkTo({ questions: [question] })}>${question}</a></li>`)}
      </ul>`}
    ${recent.length > 0 &&
    html`<h3>Recent documents</h3>
      <ul class="contents">
        ${recent.map(
          ({ doc_id, title, modified, of }) => html`<li class="line">
            <a ...${linkTo({ doc: doc_id, start: null, end: null, of })}>${isNamed(title, doc_id) ? title : doc_id}
              ${isNamed(title, doc_id) && html`<span class="quiet"> ${doc_id}</span>`}</a>
            ${modified && html`<span class="quiet">${ago(modified)}</span>`}
          </li>`,
        )}
      </ul>`}
    ${folders.length > 0 &&
    html`<h3>Folders</h3>
      <p class="chips">
        ${folders.map(
          ([folder, documents]) => html`<button class="chip" aria-pressed=${String(folder === state.folder)}
            data-set=${folder === state.folder ? "" : null}
            onClick=${() => go({ folder: folder === state.folder ? "" : folder })}>${folder} <span class="quiet">${documents}</span></button>`,
        )}
      </p>`}
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
