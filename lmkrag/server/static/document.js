// A document beside the answer: its text, its Markdown or its pages, a place marked, and how well every sentence fits.

import { html, useEffect, useMemo, useRef, useState } from "/static/vendor/htm-preact.js";
import { documentPath, getJson } from "/static/requests.js";

const WINDOW = 60_000; // characters of a long text that are shown at once
const TAGS = new Set(
  "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s br hr table thead tbody tr th td a".split(" "),
);

// Offsets of the server count code points, strings of JavaScript UTF-16 units.
const points = (text) => Array.from(text);

// Text that begins at a code point of the document, with the part in [start, end) marked.
function marked(text, from, start, end) {
  const letters = points(text);
  const low = Math.max(0, start - from);
  const high = Math.min(letters.length, end - from);
  if (from < 0 || start == null || low >= high) return text;
  const part = (a, b) => letters.slice(a, b).join("");
  return html`${part(0, low)}<mark>${part(low, high)}</mark>${part(high)}`;
}

function useLoaded(load, keys) {
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

function useScrollToMark(container, keys) {
  useEffect(() => {
    container.current?.querySelector("mark, .rectangle")?.scrollIntoView({ block: "center" });
  }, keys);
}

function Failure({ error }) {
  return html`<p class="problem" role="alert">${error.message}</p>`;
}

function TextView({ docId, index, characters, start, end }) {
  const middle = start ?? 0;
  const [range, setRange] = useState(null);
  const first = Math.max(0, middle - WINDOW / 2);
  const shown =
    range && range[0] <= middle && middle <= range[1] ? range : [first, Math.min(characters, first + WINDOW)];
  const container = useRef(null);
  const { value, error } = useLoaded(
    (signal) => getJson(`${documentPath(docId)}/text`, { index, start: shown[0], end: shown[1] }, signal),
    [docId, index, shown[0], shown[1]],
  );
  useScrollToMark(container, [value, start, end]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!value) return html`<p class="quiet">Loading</p>`;
  return html`<div ref=${container}>
    ${shown[0] > 0 &&
    html`<button onClick=${() => setRange([Math.max(0, shown[0] - WINDOW), shown[1]])}>Show what is before</button>`}
    <pre class="text">${marked(value.text, value.start, start, end)}</pre>
    ${shown[1] < characters &&
    html`<button onClick=${() => setRange([shown[0], Math.min(characters, shown[1] + WINDOW)])}>
      Show what follows
    </button>`}
  </div>`;
}

function element(node, key, start, end) {
  if ("text" in node) return marked(node.text, node.start, start, end);
  const { tag, attributes } = node;
  const children = node.children.map((child, number) => element(child, number, start, end));
  if (!TAGS.has(tag)) return children;
  const known = tag === "a" ? { href: attributes.href, rel: "noopener noreferrer", target: "_blank" } : {};
  if (tag === "ol" && attributes.start) known.start = attributes.start;
  if (attributes.align) known.class = `align-${attributes.align}`;
  return html`<${tag === "a" && !attributes.href ? "span" : tag} key=${key} ...${known}>${children}<//>`;
}

function MarkdownView({ docId, index, characters, start, end }) {
  const container = useRef(null);
  const { value, error } = useLoaded(
    (signal) => getJson(`${documentPath(docId)}/blocks`, { index }, signal),
    [docId, index],
  );
  useScrollToMark(container, [value, start, end]);
  if (error) return html`<${TextView} ...${{ docId, index, characters, start, end }} />`;
  if (!value) return html`<p class="quiet">Loading</p>`;
  return html`<div class="markdown" ref=${container}>
    ${value.blocks.map((node, number) => element(node, number, start, end))}
  </div>`;
}

function pageAt(starts, place) {
  let page = 1;
  starts.forEach((start, number) => {
    if (start <= place) page = number + 1;
  });
  return page;
}

function PageImage({ docId, index, number, rectangles = [] }) {
  const address = `${documentPath(docId)}/pages/${number}.webp?${new URLSearchParams({ index })}`;
  const percent = (share) => `${(100 * share).toFixed(3)}%`;
  return html`<div class="page">
    <img src=${address} alt=${`Page ${number}`} />
    ${rectangles.map(
      ([left, top, right, bottom]) => html`<div
        class="rectangle"
        style=${{
          left: percent(left),
          top: percent(top),
          width: percent(right - left),
          height: percent(bottom - top),
        }}
      ></div>`,
    )}
  </div>`;
}

function PagesView({ docId, index, info, start, end, sentences, goTo }) {
  const at = pageAt(info.page_starts, start ?? 0);
  const [page, setPage] = useState(at);
  useEffect(() => setPage(at), [docId, at]);
  const container = useRef(null);
  const { value, error } = useLoaded(
    (signal) =>
      start == null
        ? Promise.resolve({ places: [] })
        : getJson(`${documentPath(docId)}/places`, { index, start, end }, signal),
    [docId, index, start, end],
  );
  useScrollToMark(container, [value, page]);
  const best = useMemo(() => bestPages(info.page_starts, sentences), [info, sentences]);
  if (error) return html`<${Failure} error=${error} /><${TextView} ...${{ docId, index, start, end }} characters=${info.characters} />`;
  const rectangles = value?.places.find((place) => place.page === page)?.rectangles;
  return html`<div ref=${container}>
    <nav class="pages" aria-label="Pages">
      <button disabled=${page <= 1} onClick=${() => setPage(page - 1)}>Previous page</button>
      <span>Page ${page} of ${info.pages}</span>
      <button disabled=${page >= info.pages} onClick=${() => setPage(page + 1)}>Next page</button>
      ${best.map(
        ({ number, sentence }) => html`<button
          class="best"
          aria-current=${number === page ? "page" : null}
          onClick=${() => goTo(sentence.start, sentence.end)}
        >
          Page ${number}: ${sentence.score.toFixed(2)}
        </button>`,
      )}
    </nav>
    <${PageImage} ...${{ docId, index, rectangles }} number=${page} key=${page} />
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

const NEAR = 3; // sentences to each side that a peak is above

function findPeaks(sentences) {
  const mean = sentences.reduce((sum, sentence) => sum + sentence.score, 0) / (sentences.length || 1);
  const most = Math.max(...sentences.map((sentence) => sentence.score), 0);
  const least = mean + (most - mean) / 2;
  return sentences
    .map((sentence, number) => ({ sentence, number }))
    .filter(
      ({ sentence, number }) =>
        sentence.score >= least &&
        sentences
          .slice(Math.max(0, number - NEAR), number + NEAR + 1)
          .every((other) => other.score <= sentence.score),
    )
    .map(({ number }) => number);
}

function Strip({ docId, index, sentences, characters, start, goTo }) {
  const [hovered, setHovered] = useState(null);
  const [text, setText] = useState("");
  const shown = hovered == null ? null : sentences[hovered];
  useEffect(() => {
    if (!shown) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      getJson(`${documentPath(docId)}/text`, { index, start: shown.start, end: shown.end }, abort.signal).then(
        (reply) => setText(reply.text.trim()),
        () => {},
      );
    }, 60);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [shown?.start, docId, index]);
  const scores = sentences.map((sentence) => sentence.score);
  const low = Math.min(...scores);
  const high = Math.max(...scores, low + 1e-9);
  const here = sentences.findIndex((sentence) => sentence.start <= start && start < sentence.end);
  const bars = useMemo(
    () =>
      sentences.map(
        (sentence, number) => html`<rect
          x="0"
          y=${sentence.start}
          width=${4 + (96 * (sentence.score - low)) / (high - low)}
          height=${Math.max(sentence.end - sentence.start, characters / 800)}
          class=${number === here ? "here" : ""}
        />`,
      ),
    [sentences, characters, here],
  );
  const go = (number) => {
    setHovered(number);
    goTo(sentences[number].start, sentences[number].end);
  };
  const onKeyDown = (event) => {
    const peaks = findPeaks(sentences);
    const from = here < 0 ? -1 : here;
    let next;
    if (["ArrowDown", "ArrowRight"].includes(event.key)) next = peaks.find((peak) => peak > from);
    else if (["ArrowUp", "ArrowLeft"].includes(event.key)) next = peaks.findLast((peak) => peak < from);
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = sentences.length - 1;
    else return;
    event.preventDefault();
    if (next !== undefined) go(next);
  };
  const numberAt = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const place = ((event.clientY - box.top) / box.height) * characters;
    const found = sentences.findIndex((sentence) => place < sentence.end);
    return found < 0 ? sentences.length - 1 : found;
  };
  return html`<div class="strip">
    <svg
      viewBox=${`0 0 100 ${characters}`}
      preserveAspectRatio="none"
      role="slider"
      tabindex="0"
      aria-orientation="vertical"
      aria-label="Relevance of every sentence; arrow keys go to the next peak"
      aria-valuemin="0"
      aria-valuemax=${sentences.length - 1}
      aria-valuenow=${Math.max(0, here)}
      aria-valuetext=${here < 0 ? "no sentence" : `sentence ${here + 1}, score ${scores[here].toFixed(2)}`}
      onKeyDown=${onKeyDown}
      onMouseMove=${(event) => setHovered(numberAt(event))}
      onMouseLeave=${() => setHovered(null)}
      onClick=${(event) => go(numberAt(event))}
    >
      ${bars}
    </svg>
    ${shown && html`<p class="sentence" aria-hidden="true"><b>${shown.score.toFixed(3)}</b> ${text}</p>`}
  </div>`;
}

export function DocumentView({ state, goTo, close }) {
  const { doc: docId, index, q: question, start, end } = state;
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
  const sentences = relevance?.sentences || [];
  const shared = { docId, index, start, end };
  let body = html`<p class="quiet">Loading</p>`;
  if (error) body = html`<${Failure} error=${error} />`;
  else if (info?.kind === "pdf" && !info.meta.attached_to) body = html`<${PagesView} ...${shared} ...${{ info, sentences, goTo }} />`;
  else if (info?.kind === "markdown") body = html`<${MarkdownView} ...${shared} characters=${info.characters} />`;
  else if (info) body = html`<${TextView} ...${shared} characters=${info.characters} />`;
  return html`<section class="document" aria-labelledby="document-title">
    <header>
      <div>
        <h2 id="document-title" tabindex="-1" ref=${heading}>${info?.title || docId}</h2>
        <p class="quiet">${docId}</p>
      </div>
      <button onClick=${close}>Close</button>
    </header>
    <div class="body">
      ${sentences.length > 1 &&
      html`<${Strip} ...${{ docId, index, sentences, goTo }} start=${start ?? -1} characters=${info?.characters || 1} />`}
      <div class="content" tabindex="0" role="region" aria-label="Text of the document">${body}</div>
    </div>
  </section>`;
}
