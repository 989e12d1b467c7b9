// Questions, their answers and the passages that were found, one below the other.

import { html, useContext, useEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { Blocks, Copy } from "/static/blocks.js";
import { Why } from "/static/explain.js";
import { asJson, Problem, streamEvents } from "/static/requests.js";
import { CLOSED, filterOf, Page } from "/static/state.js";

const HISTORY = 6; // exchanges that a follow-up question is understood from
const SHOWN = 8; // passages at first
const CACHED = 300; // answers that are shown again without a request

const answers = new Map(); // by the address of their question: what useAnswer returns
const keyOf = (span) => `${span.doc_id}:${span.start}-${span.end}`;

function keep(key, reply) {
  answers.set(key, reply);
  if (answers.size > CACHED) answers.delete(answers.keys().next().value);
}

// Asks if `enabled`, unless the answer is cached; {busy, text, answer, spans, problem, stopped, stop, again}.
function useAnswer(key, body, enabled) {
  const [reply, setReply] = useState(answers.get(key) || {});
  const [round, setRound] = useState(0);
  const abort = useRef(null);
  useEffect(() => {
    const known = round === 0 && answers.get(key);
    if (known || !enabled) {
      setReply(known || {});
      return undefined;
    }
    const { signal } = (abort.current = new AbortController());
    let values = { busy: true, text: "" };
    const change = (more) => {
      values = { ...values, ...more };
      if (!signal.aborted) setReply(values);
    };
    const run = async () => {
      change({});
      const shown = new Map();
      const withBlocks = (spans) => spans.map((span) => ({ ...span, blocks: shown.get(keyOf(span)) }));
      for await (const { event, data } of streamEvents("/api/ask", asJson(body, signal))) {
        if (event === "spans") {
          data.spans.forEach((span, number) => shown.set(keyOf(span), data.blocks[number]));
          change({ spans: withBlocks(data.spans) });
        } else if (event === "text") change({ text: values.text + data });
        else if (event === "answer") change({ answer: data, spans: withBlocks(data.spans) });
        else if (event === "error") throw new Problem(data.status, data);
      }
      change({ busy: false });
      keep(key, values);
    };
    run().catch((error) => change({ busy: false, problem: error }));
    return () => signal.aborted || abort.current.abort();
  }, [key, enabled, round]);
  const stop = () => {
    abort.current?.abort();
    setReply((known) => ({ ...known, busy: false, stopped: true }));
  };
  return { ...reply, stop, again: () => setRound(round + 1) };
}

function Sources({ answer, link }) {
  const cited = answer.citations.filter(
    (citation, place, all) => all.findIndex((other) => other.place === citation.place) === place,
  );
  if (!cited.length) return null;
  return html`<ol class="citations" aria-label="Sources">
    ${cited.map(
      (citation) => html`<li value=${citation.number}>
        <a ...${link(citation)} title=${citation.quote.slice(0, 400)}>${citation.place}</a>
        <span class="quiet">${answer.spans[citation.number - 1].section}</span>
      </li>`,
    )}
  </ol>`;
}

function Reply({ reply, link, retry }) {
  const { text, answer, spans, problem, busy, stopped } = reply;
  if (problem) {
    return html`<div class="problem" role="alert">
      <p>${problem.message}</p>
      <button onClick=${retry}>Try again</button>
    </div>`;
  }
  if (!answer) {
    return html`${text && html`<p class="said">${text}</p>`}
      ${busy && html`<p class="quiet working">${spans ? `Reading ${spans.length} passages` : "Searching"}</p>`}
      ${stopped && html`<p class="quiet">Stopped.</p>`}`;
  }
  const cite = (number) => {
    const citation = answer.citations.find((one) => one.number === number);
    if (!citation) return `[${number}]`;
    return html`<a class="citation" ...${link(citation)} title=${citation.quote.slice(0, 400)}
      aria-label=${`Source ${number}: ${citation.place}`}>${number}</a>`;
  };
  const perhaps = !answer.found && answer.citations.length > 0;
  return html`<div class=${perhaps ? "said perhaps" : "said"}>
      <${Blocks} nodes=${answer.blocks} cite=${cite} />
      ${answer.answered_by && html`<p class="quiet">Answered by ${answer.answered_by}</p>`}
      ${answer.label && answer.citations.length > 0 && html`<p class="quiet">Confidence: ${answer.label}</p>`}
      ${!answer.found && !perhaps && answer.spans.length > 0 && html`<p class="quiet">Other words may find more.</p>`}
    </div>
    <${Sources} answer=${answer} link=${link} />
    ${answer.warnings.map((warning) => html`<p class="problem" role="status">Warning: ${warning}</p>`)}`;
}

function Passage({ span, number, link, onlyHere }) {
  return html`<li class="result" value=${number}>
    <h3><a ...${link(span)}>${span.place}</a> ${span.weak && html` <span class="weak">weak</span>`}
      ${span.date && span.date_source !== "file" && html` <span class="weak" title=${span.date_source}>${span.date}</span>`}
      ${span.superseded_by && html` <span class="weak">superseded by ${span.superseded_by}</span>`}
      ${span.instructs_model && html` <span class="weak">speaks to a language model</span>`}
      ${span.stale && html` <span class="weak">${span.stale} since indexing</span>`}</h3>
    <p class="quiet">${span.section}</p>
    <${Blocks} nodes=${span.blocks || []} />
    ${span.more.length > 0 && html`<p class="quiet">Also in lines ${span.more.join(", ")}</p>`}
    ${span.also_in.length > 0 && html`<p class="quiet">Also in ${span.also_in.join(", ")}</p>`}
    <div class="row">
      ${span.explanation && html`<${Why} explanation=${span.explanation} />`}
      <button class="small" onClick=${onlyHere}>Only in this document</button>
    </div>
  </li>`;
}

function Passages({ question, spans, open, link }) {
  const { go } = useContext(Page);
  const [most, setMost] = useState(SHOWN);
  if (!spans.length) return html`<p class="quiet">No passage was found. Other words, or fewer filters, may find some.</p>`;
  return html`<details class="passages" open=${open}>
    <summary>Passages (${spans.length})</summary>
    <ol class="results">
      ${spans.slice(0, most).map(
        (span, number) => html`<${Passage}
          key=${keyOf(span)}
          ...${{ span, link, number: number + 1 }}
          onlyHere=${() => go({ in: span.doc_id, questions: [question], ...CLOSED })}
        />`,
      )}
    </ol>
    ${spans.length > most && html`<button class="small" onClick=${() => setMost(spans.length)}>Show all ${spans.length}</button>`}
  </details>`;
}

// An answer with its sources, as Markdown.
function asMarkdown(question, answer) {
  const places = [...new Set(answer.citations.map((one) => `[${one.number}] ${one.place}`))];
  return [`**${question}**`, answer.text, places.join("  \n")].filter(Boolean).join("\n\n");
}

function Edit({ question, done }) {
  const submit = (event) => {
    event.preventDefault();
    done(event.target.elements.edited.value.trim());
  };
  return html`<form class="edit" onSubmit=${submit}>
    <input name="edited" aria-label="Question" defaultValue=${question} maxlength="10000" autofocus required />
    <button class="primary">Ask</button>
    <button type="button" onClick=${() => done("")}>Cancel</button>
  </form>`;
}

function Turn({ number }) {
  const { state, index, server, go, linkTo } = useContext(Page);
  const { questions } = state;
  const question = questions[number];
  const isLast = number === questions.length - 1;
  const [opened, setOpened] = useState(isLast);
  const [editing, setEditing] = useState(false);
  const filter = filterOf(state);
  const keyAt = (place) => JSON.stringify([index, state.mode, filter, questions.slice(0, place + 1)]);
  const history = questions
    .slice(0, number)
    .map((before, place) => [before, answers.get(keyAt(place))?.answer?.text || ""])
    .slice(-HISTORY);
  const how = { index: index || null, mode: state.mode || "hybrid", filter: filter || null };
  const body = { ...how, question, history, stream: true, explain: true, blocks: true };
  const reply = useAnswer(keyAt(number), body, Boolean(server) && (isLast || opened));
  const { answer, spans, busy } = reply;
  const link = ({ doc_id, start, end }) => linkTo({ doc: doc_id, start, end });
  const heading = useRef(null);
  useEffect(() => {
    if (isLast && number > 0) heading.current?.scrollIntoView({ block: "start" });
  }, [isLast, question]);
  const edited = (text) => {
    setEditing(false);
    if (text && text !== question) go({ questions: [...questions.slice(0, number), text], ...CLOSED });
  };
  const waiting = !isLast && !opened && !answer;
  return html`<article class="turn" aria-label=${question}>
    ${editing
      ? html`<${Edit} question=${question} done=${edited} />`
      : html`<h2 ref=${heading}>${question}</h2>`}
    <div class="answer" aria-live="polite" aria-busy=${Boolean(busy)}>
      ${waiting
        ? html`<button onClick=${() => setOpened(true)}>Show the answer</button>`
        : html`<${Reply} ...${{ reply, link, retry: reply.again }} />`}
    </div>
    <div class="row actions">
      ${busy && html`<button class="small" onClick=${reply.stop}>Stop</button>`}
      ${answer && html`<${Copy} label="Copy answer" text=${() => asMarkdown(question, answer)} />`}
      ${answer && html`<${Copy} label="Copy link" text=${() => location.href} />`}
      ${!busy && !waiting && html`<button class="small" onClick=${reply.again}>Ask again</button>`}
      ${!editing && html`<button class="small" onClick=${() => setEditing(true)}>Edit</button>`}
    </div>
    ${spans && html`<${Passages} ...${{ question, spans, link }} open=${isLast && answer?.found !== false} />`}
  </article>`;
}

export function Thread() {
  const { state } = useContext(Page);
  return html`<div class="thread">
    ${state.questions.map((question, number) => html`<${Turn} key=${`${number} ${question}`} number=${number} />`)}
  </div>`;
}
