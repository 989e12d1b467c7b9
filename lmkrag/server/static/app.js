// The page: ask, read the answer as it comes, open what it cites.

import { html, render, useCallback, useEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { DocumentView } from "/static/document.js";
import { Why } from "/static/explain.js";
import { documentPath, getJson, postJson, Problem, putFile, streamEvents } from "/static/requests.js";
import { filterOf, readState, writeState } from "/static/state.js";

const RESULTS = 8;

function Login({ onDone }) {
  const [problem, setProblem] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    try {
      await postJson("/api/login", { token: event.target.elements.token.value });
      onDone();
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<main class="login">
    <h1>lmkrag</h1>
    <form onSubmit=${submit}>
      <label for="token">The server's token</label>
      <input id="token" name="token" type="password" autocomplete="current-password" required />
      <button>Enter</button>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    </form>
  </main>`;
}

function SearchForm({ state, indexes, kinds, onAsk }) {
  const input = useRef(null);
  useEffect(() => {
    const focus = (event) => {
      const typing = event.target.closest("input, textarea, select");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      input.current.focus();
      input.current.select();
    };
    document.addEventListener("keydown", focus);
    return () => document.removeEventListener("keydown", focus);
  }, []);
  const submit = (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.target));
    onAsk({ ...fields, q: fields.q.trim() });
  };
  const filtered = state.folder || state.kind || state.from || state.to || (state.mode && state.mode !== "hybrid");
  return html`<form class="ask" role="search" onSubmit=${submit}>
    <div class="row">
      <label for="q" class="hidden">Question</label>
      <input
        id="q"
        name="q"
        type="search"
        ref=${input}
        defaultValue=${state.q}
        maxlength="10000"
        placeholder="Ask your documents"
        autocomplete="off"
        enterkeyhint="search"
        required
      />
      <button class="primary">Ask</button>
    </div>
    <details class="filters" open=${Boolean(filtered)}>
      <summary>Where to look</summary>
      <div class="fields">
        ${indexes.length > 1 &&
        html`<label>Index
          <select name="index">
            ${indexes.map(({ name }) => html`<option value=${name} selected=${name === state.index}>${name}</option>`)}
          </select>
        </label>`}
        <label>Folder <input name="folder" defaultValue=${state.folder} placeholder="reports/2024" /></label>
        <label>Kind
          <select name="kind">
            <option value="">any</option>
            ${kinds.map((kind) => html`<option value=${kind} selected=${kind === state.kind}>${kind}</option>`)}
          </select>
        </label>
        <label>Dated from <input name="from" type="date" defaultValue=${state.from} /></label>
        <label>Dated to <input name="to" type="date" defaultValue=${state.to} /></label>
        <label>Scores
          <select name="mode">
            <option value="hybrid" selected=${!state.mode || state.mode === "hybrid"}>meaning and words</option>
            <option value="dense" selected=${state.mode === "dense"}>meaning</option>
            <option value="lexical" selected=${state.mode === "lexical"}>words</option>
          </select>
        </label>
      </div>
    </details>
  </form>`;
}

// The text of an answer, its [1] as buttons that open what they cite.
function AnswerText({ text, citations, open }) {
  return text.split(/(\[\d+\])/).map((piece) => {
    const number = /^\[(\d+)\]$/.exec(piece)?.[1];
    const citation = number && citations.find((cited) => cited.number === Number(number));
    if (!citation) return piece;
    return html`<button class="citation" title=${citation.place} onClick=${() => open(citation)}
      aria-label=${`Source ${number}: ${citation.place}`}>${number}</button>`;
  });
}

// A quotation with the words that answer marked; places count characters, of which some are two units of JavaScript's.
function Quotation({ citation, short }) {
  const inside = short.find(
    (one) => one.number === citation.number && one.start >= citation.start && one.end <= citation.end,
  );
  if (!inside) return html`<q>${citation.quote}</q>`;
  const letters = [...citation.quote];
  const [start, end] = [inside.start - citation.start, inside.end - citation.start];
  const cut = (from, to) => letters.slice(from, to).join("");
  return html`<q>${cut(0, start)}<mark>${cut(start, end)}</mark>${cut(end)}</q>`;
}

function Answer({ asked, open }) {
  const { text, answer, problem, busy } = asked;
  const citations = answer?.citations || [];
  return html`<section class="answer" aria-labelledby="answer-title">
    <h2 id="answer-title">Answer</h2>
    <div aria-live="polite" aria-busy=${busy}>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
      ${busy && !text && html`<p class="quiet">Searching</p>`}
      ${text && html`<p class="said"><${AnswerText} ...${{ text: answer?.answer ?? text, citations, open }} /></p>`}
    </div>
    ${citations.length > 0 &&
    html`<ol class="citations" aria-label="Sources">
      ${citations.map(
        (citation) => html`<li value=${citation.number}>
          <button class="link" onClick=${() => open(citation)}>${citation.place}</button>
          <${Quotation} ...${{ citation, short: answer.short }} />
        </li>`,
      )}
    </ol>`}
    ${answer?.warnings.map((warning) => html`<p class="quiet">${warning}</p>`)}
  </section>`;
}

const placeOf = (span) =>
  span.line != null
    ? `${span.doc_id}:${span.line}`
    : span.page != null
      ? `${span.doc_id}, page ${span.page}`
      : `${span.doc_id}:${span.start}-${span.end}`;

// The lines of a paragraph that was wrapped by hand as one; code, lists and tables keep theirs.
const reflow = (text) => text.replace(/([^\n]{60,})\n(?![\n\s|>#*+-]|\d+[.)]\s)/g, "$1 ");

// Text with the best sentence in bold; offsets count code points.
function WithBest({ span }) {
  const letters = Array.from(span.kind === "code" ? span.text : reflow(span.text)); // as many as before
  const [best] = span.hits;
  const low = Math.max(0, (best?.start ?? span.start) - span.start);
  const high = Math.max(low, Math.min(letters.length, (best?.end ?? span.start) - span.start));
  const show = (first, stop) => letters.slice(first, stop).join("");
  return html`${show(0, low)}<b>${show(low, high)}</b>${show(high)}`;
}

const THUMB = "M7 22V10l5-8c1.7 0 2.6 1.2 2.3 2.8L13.5 9H20a2 2 0 0 1 2 2.3l-1.4 8.5A2.6 2.6 0 0 1 18 22H7ZM2 10h3v12H2z";

function Thumb({ label, down, verdict, current, give }) {
  return html`<button
    class="thumb"
    aria-pressed=${current === verdict}
    aria-label=${label}
    title=${label}
    onClick=${() => give(current === verdict ? "none" : verdict)}
  >
    <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" class=${down ? "down" : ""}><path d=${THUMB} /></svg>
  </button>`;
}

function Result({ span, number, state, open, verdict, give }) {
  const section = [span.title, ...span.headings].filter((part, i, all) => part && all.indexOf(part) === i);
  return html`<li class="result" tabindex="-1">
    <h3><button class="link" onClick=${() => open(span)}>${placeOf(span)}</button></h3>
    <p class="quiet">${section.join(" › ")}<span class="score">${span.score.toFixed(3)}</span></p>
    ${span.header && html`<p class="quiet">${span.header}</p>`}
    <p class="passage"><${WithBest} span=${span} /></p>
    ${span.also_in.length > 0 && html`<p class="quiet">Also in ${span.also_in.join(", ")}</p>`}
    <div class="row">
      ${span.explanation && html`<${Why} explanation=${span.explanation} />`}
      ${give && html`<div class="thumbs" role="group" aria-label=${`Does result ${number} answer the question?`}>
        <${Thumb} label="Answers the question" verdict="up" current=${verdict} give=${give} />
        <${Thumb} label="Does not answer the question" down verdict="down" current=${verdict} give=${give} />
      </div>`}
    </div>
  </li>`;
}

const keyOf = (span) => `${span.doc_id}:${span.start}-${span.end}`;

function Results({ state, spans, open, writable }) {
  const list = useRef(null);
  const [verdicts, setVerdicts] = useState({});
  const [problem, setProblem] = useState("");
  useEffect(() => {
    setVerdicts({});
    getJson("/api/feedback", { index: state.index, question: state.q }).then(
      (reply) => setVerdicts(Object.fromEntries(reply.verdicts.map((given) => [keyOf(given), given.verdict]))),
      () => {},
    );
  }, [state.q, state.index]);
  useEffect(() => {
    const move = (event) => {
      if (!["j", "k"].includes(event.key) || event.target.closest("input, textarea, select")) return;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const items = [...list.current.querySelectorAll(".result")];
      const at = items.findIndex((item) => item.contains(document.activeElement));
      const next = items[Math.min(items.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))];
      next?.querySelector("h3 button").focus();
    };
    document.addEventListener("keydown", move);
    return () => document.removeEventListener("keydown", move);
  }, []);
  const give = async (span, verdict) => {
    const { doc_id, start, end } = span;
    try {
      await postJson("/api/feedback", { index: state.index, question: state.q, doc_id, start, end, verdict });
      setVerdicts((known) => ({ ...known, [keyOf(span)]: verdict }));
      setProblem("");
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<section aria-labelledby="results-title">
    <h2 id="results-title">Passages</h2>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${spans.length === 0 && html`<p class="quiet">Nothing was found.</p>`}
    <ol class="results" ref=${list}>
      ${spans.map(
        (span, number) => html`<${Result}
          key=${keyOf(span)}
          ...${{ span, state, open, number: number + 1 }}
          verdict=${verdicts[keyOf(span)] || "none"}
          give=${writable && ((verdict) => give(span, verdict))}
        />`,
      )}
    </ol>
  </section>`;
}

function Adding({ index, onAdded }) {
  const [jobs, setJobs] = useState([]);
  const [over, setOver] = useState(false);
  const show = (name, change) =>
    setJobs((known) => [...known.filter((job) => job.name !== name), { ...known.find((job) => job.name === name), ...change, name }]);
  const add = async (files) => {
    for (const file of files) {
      const name = file.webkitRelativePath || file.name;
      show(name, { state: "sending", done: 0, total: file.size });
      try {
        const job = await putFile(`${documentPath(name)}?${new URLSearchParams({ index })}`, file);
        for await (const { data } of streamEvents(`/api/jobs/${job.job_id}/events`)) show(name, data);
        onAdded();
      } catch (error) {
        show(name, { state: "failed", error: error.message });
      }
    }
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    add([...event.dataTransfer.files]);
  };
  return html`<section
    class=${`adding ${over ? "over" : ""}`}
    aria-labelledby="adding-title"
    onDragOver=${(event) => {
      event.preventDefault();
      setOver(true);
    }}
    onDragLeave=${() => setOver(false)}
    onDrop=${drop}
  >
    <h2 id="adding-title">Add documents</h2>
    <label>Drop files here, or choose them
      <input type="file" multiple onChange=${(event) => add([...event.target.files])} />
    </label>
    <ul aria-live="polite">
      ${jobs.map(
        (job) => html`<li key=${job.name}>
          ${job.name}: ${job.state}
          ${["sending", "running", "waiting"].includes(job.state) &&
          html` <progress max=${job.total || 1} value=${job.done} aria-label=${`${job.name}: progress`}></progress>`}
          ${job.error && html`<span class="problem"> ${job.error}</span>`}
        </li>`,
      )}
    </ul>
  </section>`;
}

function Documents({ state, open, changed }) {
  const [reply, setReply] = useState(null);
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (!shown) return;
    getJson("/api/documents", { index: state.index, filter: filterOf(state), limit: 200 }).then(setReply, () => {});
  }, [shown, changed, state.index, state.folder, state.kind, state.from, state.to]);
  return html`<details class="documents" onToggle=${(event) => setShown(event.target.open)}>
    <summary>Documents</summary>
    ${reply &&
    html`<p class="quiet">${reply.total} documents${reply.total > reply.documents.length ? ", the first 200" : ""}</p>
      <ul>
        ${reply.documents.map(
          (info) => html`<li key=${info.doc_id}>
            <button class="link" onClick=${() => open({ doc_id: info.doc_id, start: null, end: null })}>${info.doc_id}</button>
          </li>`,
        )}
      </ul>`}
  </details>`;
}

const NOTHING = { busy: false, text: "", answer: null, problem: "", spans: null };

function useAnswer(state, indexes) {
  const [asked, setAsked] = useState(NOTHING);
  const filter = filterOf(state);
  useEffect(() => {
    if (!state.q || !indexes) {
      setAsked(NOTHING);
      return undefined;
    }
    const abort = new AbortController();
    const change = (values) => abort.signal.aborted || setAsked((known) => ({ ...known, ...values }));
    const how = { index: state.index || null, mode: state.mode || "hybrid", filter: filter || null };
    const run = async () => {
      setAsked({ ...NOTHING, busy: true });
      const found = postJson("/api/search", { ...how, query: state.q, top_k: RESULTS, explain: true }, abort.signal);
      found.then(
        (reply) => change({ spans: reply.spans }),
        () => {},
      );
      const options = {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ ...how, question: state.q, stream: true }),
        signal: abort.signal,
      };
      let text = "";
      for await (const { event, data } of streamEvents("/api/ask", options)) {
        if (event === "text") change({ text: (text += data) });
        else if (event === "answer") change({ answer: data });
        else if (event === "error") throw new Problem(data.status, data);
      }
      await found;
    };
    run()
      .catch((error) => change({ problem: error.message }))
      .finally(() => change({ busy: false }));
    return () => abort.abort();
  }, [state.q, state.index, state.mode, filter, Boolean(indexes)]);
  return asked;
}

function App() {
  const [state, setState] = useState(readState);
  const [server, setServer] = useState(null);
  const [status, setStatus] = useState(null);
  const [problem, setProblem] = useState(null);
  const [changed, setChanged] = useState(0);
  const load = useCallback(() => {
    getJson("/api/indexes").then(
      (reply) => {
        setServer(reply);
        setProblem(null);
      },
      (error) => setProblem(error),
    );
  }, []);
  useEffect(load, [changed]);
  const index = state.index || server?.indexes[0]?.name || "";
  useEffect(() => {
    if (!index) return;
    getJson("/api/status", { index }).then(setStatus, (error) => setProblem(error));
  }, [index, changed]);
  useEffect(() => {
    const back = () => setState(readState());
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  const go = (values) => {
    const next = { ...state, ...values };
    writeState(next);
    setState(next);
  };
  const shown = { ...state, index };
  const asked = useAnswer(shown, server?.indexes);
  useEffect(() => {
    document.title = state.q ? `${state.q} - lmkrag` : "lmkrag";
  }, [state.q]);
  if (problem?.status === 401) return html`<${Login} onDone=${() => setChanged(changed + 1)} />`;
  const open = ({ doc_id, start, end }) => go({ doc: doc_id, start, end });
  const close = () => go({ doc: "", start: null, end: null });
  return html`<a class="skip" href="#q">Skip to the question</a>
    <header class="top">
      <h1><a href="/">lmkrag</a></h1>
      <${SearchForm}
        key=${JSON.stringify([state.q, state.index, state.folder, state.kind, state.from, state.to, state.mode])}
        state=${shown}
        indexes=${server?.indexes || []}
        kinds=${Object.keys(status?.kinds || {})}
        onAsk=${(fields) => go({ ...fields, doc: "", start: null, end: null })}
      />
    </header>
    <div class=${`columns ${state.doc ? "with-document" : ""}`}>
      <main>
        ${problem && html`<p class="problem" role="alert">${problem.message}</p>`}
        ${state.q && html`<${Answer} asked=${asked} open=${open} />`}
        ${asked.spans && html`<${Results} ...${{ state: shown, spans: asked.spans, open, writable: server?.writable }} />`}
        ${server?.writable && html`<${Adding} index=${index} onAdded=${() => setChanged((count) => count + 1)} />`}
        <${Documents} ...${{ state: shown, open, changed }} />
        ${status &&
        html`<footer class="quiet">
          ${status.name}: ${status.documents.toLocaleString()} documents, ${status.sentences.toLocaleString()} sentences,
          state ${status.generation}; read by ${status.reader}
        </footer>`}
      </main>
      ${state.doc &&
      index &&
      html`<${DocumentView} state=${shown} goTo=${(start, end) => go({ start, end })} close=${close} />`}
    </div>`;
}

render(html`<${App} />`, document.getElementById("app"));
