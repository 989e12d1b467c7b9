// A document beside the answer: its text as its format has it or its pages, a place marked, and the strip of relevance.

import { html, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "/static/vendor/htm-preact.js";
import { Blocks, plain } from "/static/blocks.js";
import { documentPath, getJson } from "/static/requests.js";
import { CLOSED, Page } from "/static/state.js";
import { findPeaks, Strip } from "/static/strip.js";

const WINDOW = 60_000; // characters of a long text that are shown at once
const ZOOMS = [1, 1.5, 2, 3];
const SEARCHED = 2; // characters of words that are looked for, at least

export function useLoaded(load, keys) {
  const [loaded, setLoaded] = useState({});
  useEffect(() => {
    const abort = new AbortController();
    setLoaded({});
    load(abort.signal).then(
      (value) => setLoaded({ value }),
      (error) => abort.signal.aborted || setLoaded({ error }),
    );
    return () => abort.abort();
  }, keys);
  return loaded;
}

// After layout; only the document is scrolled, the answer beside it stays.
function useScrollTo(goal, container, keys) {
  useLayoutEffect(() => {
    const show = () => {
      const mark = container.current?.querySelector(goal);
      for (const area of [mark?.closest(".content"), mark?.closest(".paper, .table")]) {
        if (!area) continue;
        const [box, outer] = [mark.getBoundingClientRect(), area.getBoundingClientRect()];
        area.scrollTop += box.top + box.height / 2 - outer.top - outer.height / 2;
        area.scrollLeft += box.left + box.width / 2 - outer.left - outer.width / 2;
      }
    };
    show();
    const frame = requestAnimationFrame(() => requestAnimationFrame(show));
    return () => cancelAnimationFrame(frame);
  }, keys);
}

function Failure({ error }) {
  return html`<p class="problem" role="alert">${error.message}</p>`;
}

// A part of a text, at first the one around a place; it begins and ends with a line.
function TextView({ docId, index, info, start, end }) {
  const { characters, kind } = info;
  const first = Math.max(0, (start ?? 0) - WINDOW / 2);
  const [turned, setTurned] = useState(null); // to a part before or after it
  const part = turned?.of === start ? turned : { from: first, to: first + WINDOW, goal: "mark.place" };
  const container = useRef(null);
  const { value, error } = useLoaded(
    (signal) => getJson(`${documentPath(docId)}/blocks`, { index, start: part.from, end: part.to }, signal),
    [docId, index, part.from, part.to],
  );
  useScrollTo(part.goal, container, [value, start, end]);
  const turnTo = (from, to, goal) => setTurned({ of: start, from, to, goal });
  const follow = () => turnTo(value.end + 1, value.end + WINDOW, ":scope > button");
  const goBack = () => turnTo(Math.max(0, value.start - WINDOW), value.start - 1, ":scope > button:last-child");
  if (error) return html`<${Failure} error=${error} />`;
  if (!value) return html`<p class="quiet">Loading</p>`;
  const lines = kind === "code" && Array.from({ length: countLines(value) }, (_, number) => value.line + number);
  return html`<div ref=${container} class=${kind === "code" ? "code" : ""}>
    ${value.start > 0 && html`<button onClick=${goBack}>Show what is before</button>`}
    <div class="lines">
      ${lines && html`<pre class="numbers" aria-hidden="true">${lines.join("\n")}</pre>`}
      <${Blocks} nodes=${value.blocks} range=${start == null ? null : { start, end }} />
    </div>
    ${value.end + 1 < characters && html`<button onClick=${follow}>Show what follows</button>`}
  </div>`;
}

const countLines = ({ blocks }) => plain(blocks[0]).replace(/\n$/, "").split("\n").length;

function pageAt(starts, place) {
  let page = 1;
  starts.forEach((start, number) => {
    if (start <= place) page = number + 1;
  });
  return page;
}

function PageImage({ docId, index, number, zoom, onLoad, onError, rectangles = [] }) {
  const scale = Math.min(4, 1.5 * zoom);
  const address = `${documentPath(docId)}/pages/${number}.webp?${new URLSearchParams({ index, scale })}`;
  const percent = (share) => `${(100 * share).toFixed(3)}%`;
  return html`<div class=${`page zoom-${10 * zoom}`}>
    <img src=${address} alt=${`Page ${number}`} ...${{ onLoad, onError }} />
    ${rectangles.map(
      ([left, top, right, bottom]) => html`<div class="rectangle"
        style=${{ left: percent(left), top: percent(top), width: percent(right - left), height: percent(bottom - top) }}></div>`,
    )}
  </div>`;
}

function PagesView({ docId, index, info, start, end, sentences, goTo }) {
  const at = pageAt(info.page_starts, start ?? 0);
  const [page, setPage] = useState(at);
  const [zoom, setZoom] = useState(0);
  useEffect(() => setPage(at), [docId, start, end]);
  const container = useRef(null);
  const [failed, setFailed] = useState(false); // to draw a page; then the server is asked why
  const { value, error } = useLoaded(
    (signal) =>
      start == null && !failed
        ? Promise.resolve({ places: [] })
        : getJson(`${documentPath(docId)}/places`, { index, start: start ?? 0, end: end ?? 1 }, signal),
    [docId, index, start, end, failed],
  );
  const [drawn, setDrawn] = useState(0); // images so far
  useScrollTo(".rectangle", container, [value, page, zoom, drawn]);
  const problem = error || (failed && value && new Error("The page can't be drawn."));
  const best = useMemo(() => bestPages(info.page_starts, sentences), [info, sentences]);
  if (problem) return html`<${Failure} error=${problem} /><${TextView} ...${{ docId, index, info, start, end }} />`;
  const rectangles = value?.places.find((place) => place.page === page)?.rectangles;
  const goToBest = ({ number, sentence }) => {
    setPage(number);
    goTo(sentence.start, sentence.end);
  };
  const typed = (event) => {
    const number = Number.parseInt(event.target.value, 10);
    if (number >= 1 && number <= info.pages) setPage(number);
    else event.target.value = page;
  };
  return html`<div ref=${container}>
    <nav class="pages" aria-label="Pages">
      <button disabled=${page <= 1} onClick=${() => setPage(page - 1)} aria-label="Previous page">‹</button>
      <label>Page <input inputmode="numeric" value=${page} onChange=${typed} /> of ${info.pages}</label>
      <button disabled=${page >= info.pages} onClick=${() => setPage(page + 1)} aria-label="Next page">›</button>
      <button disabled=${zoom === 0} onClick=${() => setZoom(zoom - 1)} aria-label="Zoom out">−</button>
      <button disabled=${zoom === ZOOMS.length - 1} onClick=${() => setZoom(zoom + 1)} aria-label="Zoom in">+</button>
      ${best.length > 1 &&
      html`<span class="quiet">Best pages:</span> ${best.map(
          (one) => html`<button class="best" aria-current=${one.number === page ? "page" : null}
            aria-label=${`Go to page ${one.number}`} onClick=${() => goToBest(one)}>${one.number}</button>`,
        )}`}
    </nav>
    <div class="paper" tabindex="0" role="region" aria-label=${`Page ${page}`}>
      <${PageImage} ...${{ docId, index, rectangles }} zoom=${ZOOMS[zoom]} number=${page} key=${page}
        onLoad=${() => setDrawn((count) => count + 1)} onError=${() => setFailed(true)} />
    </div>
  </div>`;
}

function bestPages(starts, sentences) {
  const best = new Map();
  for (const sentence of sentences) {
    const number = pageAt(starts, sentence.start);
    if (!best.has(number) || best.get(number).score < sentence.score) best.set(number, sentence);
  }
  return [...best]
    .map(([number, sentence]) => ({ number, sentence }))
    .sort((one, other) => other.sentence.score - one.sentence.score)
    .slice(0, 4);
}

// What leads through a document: its headings, words that are looked for, the places that fit the question, the file.
function Tools({ docId, index, info, start, sentences, goTo }) {
  const [words, setWords] = useState("");
  const path = (end) => `${documentPath(docId)}/${end}`;
  const { value: outline } = useLoaded((signal) => getJson(path("outline"), { index }, signal), [docId, index]);
  const query = words.trim().length < SEARCHED ? "" : words.trim();
  const { value: found } = useLoaded(
    (signal) => (query ? getJson(path("matches"), { index, query }, signal) : Promise.resolve(null)),
    [docId, index, query],
  );
  const hits = query ? (found?.matches || []).map(([from, to]) => ({ start: from, end: to })) : findPeaks(sentences).map((number) => sentences[number]);
  const here = hits.findLastIndex((hit) => hit.start <= (start ?? -1));
  const isAt = here >= 0 && hits[here].start === start;
  const move = (to) => hits[to] && goTo(hits[to].start, hits[to].end);
  const submit = (event) => {
    event.preventDefault();
    move((here + 1) % hits.length);
  };
  const headings = outline?.headings || [];
  const original = `${path("original")}?${new URLSearchParams({ index })}`;
  return html`<div class="tools">
    ${headings.length > 1 &&
    html`<select aria-label="Outline" onChange=${(event) => {
      const heading = headings[event.target.value];
      if (heading) goTo(heading.start, heading.start + heading.level + 1 + heading.text.length);
    }}>
      <option value="">Outline</option>
      ${headings.map((heading, number) => html`<option value=${number}>${"\u2003".repeat(heading.level - 1)}${heading.text}</option>`)}
    </select>`}
    <form role="search" aria-label="In this document" onSubmit=${submit}>
      <input type="search" aria-label="Find in this document" placeholder="Find" value=${words}
        onInput=${(event) => setWords(event.target.value)} />
      ${(query || hits.length > 0) &&
      html`<button type="button" disabled=${here - isAt < 0} onClick=${() => move(here - isAt)} aria-label="Previous place">‹</button>
        <span class="quiet" aria-live="polite">${isAt ? `${here + 1} of ` : ""}${hits.length}${query ? "" : " that fit"}</span>
        <button type="button" disabled=${here + 1 >= hits.length} onClick=${() => move(here + 1)} aria-label="Next place">›</button>`}
    </form>
    ${info.modified && !info.meta.attached_to &&
    html`<a href=${original} target="_blank" rel="noopener">Original</a> <a href=${original} download>Download</a>`}
  </div>`;
}

export function DocumentView() {
  const { state, names, go } = useContext(Page);
  const { doc: docId, start, end } = state;
  const index = state.of || names[0];
  const question = state.questions.at(-1);
  const heading = useRef(null);
  const { value: info, error } = useLoaded((signal) => getJson(documentPath(docId), { index }, signal), [docId, index]);
  const { value: relevance } = useLoaded(
    (signal) =>
      question
        ? getJson(`${documentPath(docId)}/relevance`, { index, query: question, points: 1500 }, signal)
        : Promise.resolve({ sentences: [] }),
    [docId, index, question],
  );
  useEffect(() => heading.current?.focus({ preventScroll: true }), [docId]);
  const url = info?.meta.url;
  const onTheWeb = /^https?:\/\//.test(url); // metadata may hold anything
  const sentences = relevance?.sentences || [];
  const goTo = (from, to) => go({ start: from, end: to }, { replace: true });
  const shared = { docId, index, info, start, end };
  let body = html`<p class="quiet">Loading</p>`;
  if (error) body = html`<${Failure} error=${error} />`;
  else if (["pdf", "image"].includes(info?.kind) && !info.meta.attached_to) body = html`<${PagesView} ...${shared} ...${{ sentences, goTo }} />`;
  else if (info) body = html`<${TextView} key=${docId} ...${shared} />`;
  return html`<section class="document" aria-labelledby="document-title">
    <header>
      <div>
        <h2 id="document-title" tabindex="-1" ref=${heading}>${info?.title || docId}</h2>
        <p class="quiet">${onTheWeb ? html`<a href=${url} target="_blank" rel="noreferrer">${url}</a>` : docId}</p>
      </div>
      <button onClick=${() => go(CLOSED)} aria-keyshortcuts="Escape">Close</button>
    </header>
    ${info && html`<${Tools} key=${docId} ...${{ ...shared, sentences, goTo }} />`}
    <div class="body">
      ${sentences.length > 1 &&
      html`<${Strip} ...${{ docId, index, sentences, goTo }} start=${start ?? -1} characters=${info?.characters || 1} />`}
      <div class="content" tabindex="0" role="region" aria-label="Text of the document">${body}</div>
    </div>
  </section>`;
}
