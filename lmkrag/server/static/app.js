// The page: what its address says is shown; every part reads it from the Page context.

import { html, render, useCallback, useEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { Composer, Home, useOverviews } from "/static/ask.js";
import { DocumentView } from "/static/document.js";
import { Documents, Uploads, useUploads } from "/static/documents.js";
import { History, store } from "/static/history.js";
import { getJson, postJson } from "/static/requests.js";
import { addressOf, ALL, CLOSED, Page, readState } from "/static/state.js";
import { Thread } from "/static/thread.js";

const POLL = 1500; // milliseconds between two looks at a folder that is being indexed
const QUIET_POLL = 15_000; // at one that is followed
const KEYS = [
  ["/ or Ctrl K", "Go to the question"],
  ["j, k", "Next, previous passage"],
  ["Enter", "Open the passage"],
  ["Esc", "Close the document"],
  ["↑ ↓", "In the strip: the next place that fits the question"],
  ["?", "Show these keys"],
];

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
      <input id="token" name="token" type="password" autocomplete="current-password" autofocus required />
      <button class="primary">Enter</button>
      ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    </form>
  </main>`;
}

function Keys({ dialog }) {
  return html`<dialog ref=${dialog} aria-labelledby="keys-title">
    <h2 id="keys-title">Keys</h2>
    <dl>${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${what}</dd>`)}</dl>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}

function Indexing({ done, total, asked }) {
  const share = total ? `${Math.floor((100 * done) / total)} %` : "looking for files";
  return html`<p class="indexing">
    <progress max=${total || 1} value=${total ? done : undefined} aria-label="Indexing"></progress>
    Indexing: ${share}. Until it is done, answers come from the documents that are there so far${asked ? "; then your question is asked again" : ""}.
  </p>`;
}

// Switches between the colours of the system, light and dark.
function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme || "");
  const next = { "": "light", light: "dark", dark: "" }[theme];
  const change = () => {
    document.documentElement.dataset.theme = next;
    store("theme", next);
    setTheme(next);
  };
  const name = theme || "system";
  return html`<button class="small" onClick=${change} title=${`Colours: ${name}`} aria-label=${`Colours: ${name}`}>
    ${{ system: "◐", light: "☀", dark: "☾" }[name]}
  </button>`;
}

// One status of several indexes.
const joinStatus = (all) => ({
  ...all[0],
  documents: all.reduce((sum, one) => sum + one.documents, 0),
  generation: all.map((one) => one.generation).join(),
  changed: all.map((one) => one.changed).sort().at(-1),
  kinds: Object.assign({}, ...all.map((one) => one.kinds)),
});

// Handlers of keys that work everywhere but where somebody types.
function useKeys(handlers) {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    const press = (event) => {
      if (event.altKey || document.querySelector("dialog[open]")) return;
      const held = event.ctrlKey || event.metaKey;
      const typing = event.target.closest("input, textarea, select");
      if (typing && event.key !== "Escape" && !held) return;
      const handle = latest.current[held ? `Ctrl ${event.key}` : event.key];
      if (handle && handle(typing) !== false) event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

function movePassage(step) {
  const items = [...document.querySelectorAll(".turn:last-child .result")];
  const at = items.findIndex((item) => item.contains(document.activeElement));
  const next = items[Math.min(items.length - 1, Math.max(0, at + step))];
  next?.closest("details")?.setAttribute("open", "");
  next?.querySelector("h3 a").focus();
}

function useDrop(enabled, add) {
  const [over, setOver] = useState(false);
  useEffect(() => {
    if (!enabled) return undefined;
    const hasFiles = ({ dataTransfer }) => dataTransfer.types.includes("Files"); // no link, no marked text
    const drag = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event) => event.relatedTarget || setOver(false);
    const drop = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(false);
      add([...event.dataTransfer.files]);
    };
    const handlers = { dragover: drag, dragleave: leave, drop };
    for (const [name, handle] of Object.entries(handlers)) addEventListener(name, handle);
    return () => Object.entries(handlers).forEach(([name, handle]) => removeEventListener(name, handle));
  }, [enabled, add]);
  return over;
}

function App() {
  const [state, setState] = useState(readState);
  const [server, setServer] = useState(null);
  const [status, setStatus] = useState(null);
  const [problem, setProblem] = useState(null);
  const [changed, setChanged] = useState(0);
  const input = useRef(null);
  const dialog = useRef(null);
  const reload = useCallback(() => setChanged((count) => count + 1), []);

  useEffect(() => {
    const load = (reply) => {
      setServer(reply);
      setProblem(null);
    };
    getJson("/api/indexes").then(load, setProblem);
  }, [changed]);
  const all = server?.indexes.map(({ name }) => name) || [];
  const index = state.index || all[0] || "";
  const names = index === ALL ? all : [index].filter(Boolean);
  useEffect(() => {
    if (!names.length) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const look = async (before) => {
      let latest = before;
      try {
        const read = (name) => getJson("/api/status", { index: name }, abort.signal);
        latest = joinStatus(await Promise.all(names.map(read)));
        setStatus(latest);
        setProblem(null);
        if (before && before.generation !== latest.generation) reload();
      } catch (error) {
        if (abort.signal.aborted) return;
        setProblem(error);
      }
      const pause = latest?.indexing || latest?.not_followed_since ? POLL : QUIET_POLL;
      if (!latest || latest.follows) timer = setTimeout(look, pause, latest);
    };
    look(null);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [names.join(), changed]);
  useEffect(() => {
    const refuse = (event) => setProblem(event.detail);
    addEventListener("unauthorized", refuse);
    return () => removeEventListener("unauthorized", refuse);
  }, []);
  useEffect(() => {
    const back = () => setState(readState());
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  const question = state.questions.at(-1);
  useEffect(() => {
    document.title = question ? `${question} - lmkrag` : "lmkrag";
    if (!state.doc && matchMedia("(pointer: fine)").matches) input.current?.focus({ preventScroll: true });
  }, [question, Boolean(status)]);

  const go = (changes, { replace = false } = {}) => {
    const next = { ...state, ...changes };
    history[replace ? "replaceState" : "pushState"](null, "", addressOf(next));
    setState(next);
  };
  // The attributes of a link to another state: a click stays on the page, a middle click opens a tab.
  const linkTo = (changes) => ({
    href: addressOf({ ...state, ...changes }),
    onClick: (event) => {
      if (event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go(changes);
    },
  });
  const { jobs, add, clear } = useUploads(names[0], reload);
  const indexing = Boolean(status?.indexing) || jobs.some((job) => !["done", "failed"].includes(job.state));
  const overviews = useOverviews(names, status);
  const over = useDrop(Boolean(server?.writable), add);
  const toQuestion = () => {
    input.current?.focus();
    input.current?.select();
  };
  useKeys({
    "/": toQuestion,
    "Ctrl k": toQuestion,
    j: () => movePassage(1),
    k: () => movePassage(-1),
    "?": () => dialog.current.showModal(),
    Escape: (typing) => {
      if (state.doc) go(CLOSED);
      else if (typing) typing.blur();
      else return false;
      return true;
    },
  });

  if (problem?.status === 401) return html`<${Login} onDone=${reload} />`;
  const page = { state, index, names, server, status, indexing, changed, go, linkTo, reload, add };
  const folders = overviews.flatMap((one) => one.folders.map(([name]) => name));
  const composer = html`<${Composer} input=${input} folders=${folders} />`;
  const home = { index: state.index, questions: [], view: "", in: "", ...CLOSED };
  const begun = state.questions.length > 0;
  const asks = begun && !state.view;
  const views = { documents: ["Documents", Documents], history: ["History", History] };
  const [, View] = views[state.view] || [];
  const change = (event) => go({ index: event.target.value, in: "", folder: "", ...CLOSED });
  return html`<${Page.Provider} value=${page}>
    <a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <h1><a ...${linkTo(home)}>lmkrag</a></h1>
      ${all.length > 1
        ? html`<label class="picker">Index
            <select onChange=${change}>
              ${[...all, ALL].map((name) => html`<option value=${name} selected=${name === index}>${name === ALL ? "All indexes" : name}</option>`)}
            </select>
          </label>`
        : html`<span class="quiet">${index}</span>`}
      <nav aria-label="Main">
        <a ...${linkTo(home)} aria-current=${begun || View ? null : "page"}>New question</a>
        ${Object.entries(views).map(
          ([view, [name]]) => html`<a ...${linkTo({ view, ...CLOSED })} aria-current=${state.view === view ? "page" : null}>${name}</a>`,
        )}
        <${Theme} />
        <button class="small" onClick=${() => dialog.current.showModal()} aria-label="Keys" aria-keyshortcuts="?">?</button>
      </nav>
    </header>
    <div class=${`columns ${state.doc ? "with-document" : ""}`}>
      <main id="main" tabindex="-1">
        ${problem &&
        !(asks && server) && // else the question says it
        html`<div class="problem" role="alert"><p>${problem.message}</p><button onClick=${reload}>Try again</button></div>`}
        ${status?.indexing && html`<${Indexing} ...${status.indexing} asked=${asks} />`}
        ${status?.not_followed_since &&
        html`<p class="problem" role="status">The folder is not followed since ${new Date(status.not_followed_since).toLocaleString()}: later changes may be missing.</p>`}
        ${View ? names.length > 0 && html`<${View} />` : begun ? html`<${Thread} />` : html`<${Home} ...${{ composer, overviews }} />`}
        ${asks && html`<div class="dock">${composer}</div>`}
      </main>
      ${state.doc && names.length > 0 && html`<${DocumentView} />`}
    </div>
    <${Uploads} jobs=${jobs} clear=${clear} />
    ${over && html`<div class="drop" role="status">Drop to add to ${names[0]}</div>`}
    <${Keys} dialog=${dialog} />
  <//>`;
}

render(html`<${App} />`, document.getElementById("app"));
