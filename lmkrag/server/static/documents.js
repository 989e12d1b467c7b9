// The documents of an index: what there is, what was skipped, adding by drop and removing with undo.

import { html, useContext, useEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { ago, count, isNamed } from "/static/ask.js";
import { documentPath, getJson, putFile, remove } from "/static/requests.js";
import { ALL, Page } from "/static/state.js";

const PAGE = 1000; // documents of one request
const SHOWN = 200; // rows at first
const UNDO = 7000; // milliseconds
const PAUSE = 250; // milliseconds between two looks at a job

const folderOf = (docId) => docId.slice(0, Math.max(0, docId.lastIndexOf("/")));

function useDocuments(index, changed) {
  const [documents, setDocuments] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const abort = new AbortController();
    const load = async () => {
      let all = [];
      let after = "";
      while (true) {
        const reply = await getJson("/api/documents", { index, after, limit: PAGE }, abort.signal);
        all = [...all, ...reply.documents];
        setDocuments(all);
        setProblem("");
        if (reply.documents.length < PAGE) return;
        after = all.at(-1).doc_id;
      }
    };
    load().catch((error) => abort.signal.aborted || setProblem(error.message));
    return () => abort.abort();
  }, [index, changed]);
  return { documents, problem };
}

// Documents that will be removed when the time for undoing is over; leaving the page removes them at once.
function useRemoval(index, documents, onChange) {
  const [pending, setPending] = useState({});
  const [problem, setProblem] = useState("");
  const timers = useRef(new Map());
  const carryOut = async (docId, options) => {
    clearTimeout(timers.current.get(docId));
    timers.current.delete(docId);
    try {
      await remove(`${documentPath(docId)}?${new URLSearchParams({ index })}`, options);
    } catch (error) {
      if (error.status !== 404) {
        // 404: somebody else has removed it
        setProblem(error.message);
        undo(docId);
      }
    }
    onChange();
  };
  const undo = (docId) => {
    clearTimeout(timers.current.get(docId));
    timers.current.delete(docId);
    setPending(({ [docId]: _, ...rest }) => rest);
  };
  // What was removed is not in the list that has been read since; it may be added again.
  useEffect(() => {
    const waits = ([docId]) => timers.current.has(docId);
    setPending((known) => Object.fromEntries(Object.entries(known).filter(waits)));
  }, [documents]);
  const request = (docId) => {
    setProblem("");
    setPending((known) => ({ ...known, [docId]: true }));
    timers.current.set(docId, setTimeout(() => carryOut(docId), UNDO));
  };
  useEffect(() => {
    const leave = () => [...timers.current.keys()].forEach((docId) => carryOut(docId, { keepalive: true }));
    addEventListener("pagehide", leave);
    return () => {
      removeEventListener("pagehide", leave);
      leave();
    };
  }, [index]);
  return { pending, problem, request, undo };
}

function Row({ info, link, removal, writable }) {
  if (removal.pending[info.doc_id]) {
    return html`<tr><td colspan="5">
      Removed ${info.doc_id}. <button class="small" onClick=${() => removal.undo(info.doc_id)}>Undo</button>
    </td></tr>`;
  }
  return html`<tr>
    <td><a ...${link}>${info.doc_id.slice(folderOf(info.doc_id).length).replace(/^\//, "")}</a>
      <span class="quiet folder">${folderOf(info.doc_id)}</span></td>
    <td class="title">${isNamed(info.title, info.doc_id) && info.title}</td>
    <td>${info.kind}</td>
    <td class="date">${String(info.meta.date || "").slice(0, 10)}</td>
    ${writable &&
    html`<td class="remove"><button class="small" aria-label=${`Remove ${info.doc_id}`} onClick=${() => removal.request(info.doc_id)}>Remove</button></td>`}
  </tr>`;
}

export function Documents() {
  const { index, server, go } = useContext(Page);
  if (index !== ALL) return html`<${DocumentsOf} />`;
  return html`<section><h2>Documents</h2><ul class="contents">
      ${server.indexes.map(
        ({ name, documents }) => html`<li><button onClick=${() => go({ index: name })}>${name}</button> ${count(documents, "document")}</li>`,
      )}
  </ul></section>`;
}

function DocumentsOf() {
  const { index, server, status, linkTo, changed, reload, add } = useContext(Page);
  const { documents, problem } = useDocuments(index, changed);
  const [words, setWords] = useState("");
  const [kind, setKind] = useState("");
  const [most, setMost] = useState(SHOWN);
  const removal = useRemoval(index, documents, reload);
  const writable = server?.writable;
  const choose = ({ target }) => {
    add([...target.files]);
    target.value = ""; // else the same file, edited, could not be chosen again
  };
  const query = words.toLowerCase();
  const matches = (documents || []).filter(
    (info) => (!kind || info.kind === kind) && `${info.title} ${info.doc_id}`.toLowerCase().includes(query),
  );
  return html`<section class="documents" aria-labelledby="documents-title">
    <h2 id="documents-title">Documents</h2>
    ${status && html`<p class="quiet">${count(status.documents, "document")}, updated ${ago(status.changed)}</p>`}
    ${[problem, removal.problem].filter(Boolean).map((text) => html`<p class="problem" role="alert">${text}</p>`)}
    ${writable &&
    html`<p class="adding"><label>Drop files anywhere on this page, or choose them
      <input type="file" multiple onChange=${choose} /></label></p>`}
    <div class="fields">
      <label>Title or name <input type="search" value=${words} onInput=${(event) => setWords(event.target.value)} /></label>
      <label>Kind
        <select onChange=${(event) => setKind(event.target.value)}>
          <option value="">any</option>
          ${Object.keys(status?.kinds || {}).map((name) => html`<option value=${name}>${name}</option>`)}
        </select>
      </label>
    </div>
    ${documents && matches.length === 0 && html`<p class="quiet">No document${words || kind ? " is called so" : "s yet"}.</p>`}
    ${matches.length > 0 &&
    html`<div class="table" tabindex="0"><table class="list">
      <thead><tr><th>File</th><th>Title</th><th>Kind</th><th>Date</th>${writable && html`<th><span class="hidden">Remove</span></th>`}</tr></thead>
      <tbody>
        ${matches.slice(0, most).map(
          (info) => html`<${Row} key=${info.doc_id} ...${{ info, removal, writable }}
            link=${linkTo({ doc: info.doc_id, start: null, end: null })} />`,
        )}
      </tbody>
    </table></div>`}
    ${matches.length > most && html`<button onClick=${() => setMost(most + 5 * SHOWN)}>Show more of ${matches.length.toLocaleString()}</button>`}
    ${status?.skipped > 0 &&
    html`<details class="skipped">
      <summary>${count(status.skipped, "file")} skipped</summary>
      <ul>${status.skipped_files.map((file) => html`<li>${file.path}<br /><span class="quiet">${file.reason}</span></li>`)}</ul>
    </details>`}
  </section>`;
}

// Files on their way into the index; add(files) sends them one after the other.
export function useUploads(index, onAdded) {
  const [jobs, setJobs] = useState([]);
  const show = (name, change) =>
    setJobs((known) => [...known.filter((job) => job.name !== name), { ...known.find((job) => job.name === name), ...change, name }]);
  const add = async (files) => {
    for (const file of files) show(file.webkitRelativePath || file.name, { state: "waiting", done: 0, total: file.size, error: null });
    for (const file of files) {
      const name = file.webkitRelativePath || file.name;
      try {
        show(name, { state: "sending" });
        let job = await putFile(`${documentPath(name)}?${new URLSearchParams({ index })}`, file);
        while (!["done", "failed"].includes(job.state)) {
          show(name, job);
          await new Promise((resume) => setTimeout(resume, PAUSE));
          job = await getJson(`/api/jobs/${job.job_id}`);
        }
        show(name, job);
      } catch (error) {
        show(name, { state: "failed", error: error.message });
      }
      onAdded();
    }
  };
  return { jobs, add, clear: () => setJobs([]) };
}

export function Uploads({ jobs, clear }) {
  if (!jobs.length) return null;
  const busy = jobs.some((job) => !["done", "failed"].includes(job.state));
  return html`<section class="uploads" aria-label="Files being added">
    <ul aria-live="polite">
      ${jobs.map(
        (job) => html`<li key=${job.name}>
          ${job.name}: ${job.state}
          ${!["done", "failed"].includes(job.state) &&
          html` <progress max=${job.total || 1} value=${job.done} aria-label=${`${job.name}: progress`}></progress>`}
          ${job.error && html`<span class="problem"> ${job.error}</span>`}
        </li>`,
      )}
    </ul>
    ${!busy && html`<button class="small" onClick=${clear}>Close</button>`}
  </section>`;
}
