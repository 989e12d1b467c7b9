// Questions, their answers and the passages that were found, one below the other.

import { html, useContext, useEffect, useLayoutEffect, useRef, useState } from "/static/vendor/htm-preact.js";
import { Blocks, Copy } from "/static/blocks.js";
import { Why } from "/static/explain.js";
import { remember } from "/static/history.js";
import { asJson, postJson, Problem, streamEvents } from "/static/requests.js";
import { ALL, CLOSED, optionsOf, Page } from "/static/state.js";

const HISTORY = 6; // exchanges that a follow-up question is understood from
const SHOWN = 8; // passages at first
const CACHED = 300; // answers that are shown again without a request
const SURE = { strong: "Very sure", likely: "Fairly sure", unsure: "Not sure", weak: "Hardly likely" };

const answers = new Map(); // by the address of their question: what useAnswer returns
const said = new Map(); // the last answers to the questions of threads, whatever the filters
const keyOf = (span) => `${span.doc_id}:${span.start}-${span.end}`;

function keep(cache, key, value) {
  cache.set(key, value);
  if (cache.size > CACHED) cache.delete(cache.keys().next().value);
}

// Asks if `enabled`, unless the answer is cached; {busy, text, answer, spans, problem, stopped, stop, again}.
function useAnswer(key, body, enabled, onAsk) {
  const [reply, setReply] = useState(answers.get(key) || {});
  const [round, setRound] = useState(0);
  const abort = useRef(null);
  useEffect(() => {
    const known = answers.get(key);
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
      onAsk();
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
      if (!values.answer) throw new Problem(0, { detail: "The answer broke off." });
      change({ busy: false });
      keep(answers, key, values);
    };
    run().catch((error) => change({ busy: false, problem: error }));
    return () => signal.aborted || abort.current.abort();
  }, [key, enabled, round]);
  const stop = () => {
    abort.current?.abort();
    setReply((known) => ({ ...known, busy: false, stopped: true }));
  };
  const again = () => {
    answers.delete(key);
    setRound(round + 1);
  };
  return { ...reply, stop, again };
}

// Every number that the text of a language model cites; the passages of a quoting reader name theirs.
function Sources({ answer, link }) {
  const cited = answer.citations.filter(
    (citation, place, all) => all.findIndex((other) => other.number === citation.number) === place,
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

// What an answer quotes: its value, how sure it is, and the passages with the marked sentences and their places.
function Quoted({ answer, cite, passage }) {
  const first = answer.blocks.length - answer.quotes.length; // the blocks before say what is said here in other words
  const value = answer.short[0]?.text;
  const citation = (number) => answer.citations.find((one) => one.number === number);
  return html`${value && html`<p class="value">${value}</p>`}
    ${answer.label && html`<p class=${`sure ${answer.label}`}>${SURE[answer.label]}</p>`}
    ${!answer.found && html`<${Blocks} nodes=${answer.blocks.slice(0, first)} />`}
    <ol class="citations results" aria-label="Sources">
      ${answer.quotes.map(({ number }, place) => {
        const span = { ...answer.spans[number - 1], place: citation(number)?.place || answer.spans[number - 1].place };
        const target = citation(number) || span;
        return passage({ span, number, target, nodes: answer.blocks[first + place].children, cite });
      })}
    </ol>`;
}

function Reply({ reply, link, passage }) {
  const { text, answer, spans, problem, busy, stopped, again } = reply;
  if (problem) {
    return html`<div class="problem" role="alert">
      <p>${problem.message}</p>
      <button onClick=${again}>Try again</button>
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
      ${answer.quotes.length > 0
        ? html`<${Quoted} ...${{ answer, cite, passage }} />`
        : html`<${Blocks} nodes=${answer.blocks} cite=${cite} /><${Sources} answer=${answer} link=${link} />`}
      ${answer.answered_by && html`<p class="quiet">Answered by ${answer.answered_by}</p>`}
      ${!answer.found && !perhaps && answer.spans.length > 0 && html`<p class="quiet">Other words may find more.</p>`}
    </div>
    ${answer.warnings.map((warning) => html`<p class="problem" role="status">Warning: ${warning}</p>`)}`;
}

// target: the characters that its link opens.
function Passage({ span, number, target, nodes, cite, link, onlyHere }) {
  const shown = useRef(null);
  useLayoutEffect(() => {
    const mark = shown.current.querySelector("mark");
    if (mark) shown.current.scrollTop = mark.offsetTop - shown.current.clientHeight / 3;
  }, [target.start]);
  return html`<li class="result" value=${number}>
    <h3><a ...${link(target)}>${span.place}</a> ${span.weak && html` <span class="weak">weak</span>`}
      ${span.date && span.date_source !== "file" && html` <span class="weak" title=${span.date_source}>${span.date}</span>`}
      ${span.superseded_by && html` <span class="weak">superseded by ${span.superseded_by}</span>`}
      ${span.instructs_model && html` <span class="weak">speaks to a language model</span>`}
      ${span.stale && html` <span class="weak">${span.stale} since indexing</span>`}
      <span class="quiet">${span.section}</span></h3>
    <blockquote class="quotation" ref=${shown} tabindex="0"><${Blocks} nodes=${nodes || []} cite=${cite} /></blockquote>
    ${span.more.length > 0 && html`<p class="quiet">Also in lines ${span.more.join(", ")}</p>`}
    ${span.also_in.length > 0 && html`<p class="quiet">Also in ${span.also_in.join(", ")}</p>`}
    <div class="row">
      ${span.explanation && html`<${Why} explanation=${span.explanation} />`}
      <button class="small" onClick=${onlyHere}>Only in this document</button>
    </div>
  </li>`;
}

// The passages but for those that the answer shows as a whole.
function Passages({ spans, answer, passage }) {
  const [most, setMost] = useState(SHOWN);
  if (!spans.length) return html`<p class="quiet">No passage was found. Other words, or fewer filters, may find some.</p>`;
  const whole = (span, number) =>
    answer?.quotes.some((quote) => quote.number === number && quote.start <= span.start && span.end <= quote.end);
  const others = spans.map((span, place) => ({ span, number: place + 1 })).filter(({ span, number }) => !whole(span, number));
  if (!others.length) return null;
  return html`<details class="passages">
    <summary>${others.length < spans.length ? "Further passages" : "Passages"} (${others.length})</summary>
    <ol class="results">
      ${others.slice(0, most).map(({ span, number }) => passage({ span, number, target: span, nodes: span.blocks }))}
    </ol>
    ${others.length > most && html`<button class="small" onClick=${() => setMost(others.length)}>Show all ${others.length}</button>`}
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

function Wrong({ report }) {
  const [told, setTold] = useState("");
  const tell = () => postJson("/api/feedback", report).then(() => setTold("Thank you"), (error) => setTold(error.message));
  return html`<button class="small" onClick=${tell} disabled=${Boolean(told)} aria-live="polite">${told || "Not helpful"}</button>`;
}

// What one index answers; onRank is told how good that is, where all indexes are asked.
function Found({ name, number, isLast, onRank, edit }) {
  const { state, server, indexing, go, linkTo } = useContext(Page);
  const { questions } = state;
  const question = questions[number];
  const isOneOfMany = state.index === ALL;
  const how = optionsOf(state);
  const threadAt = (place) => JSON.stringify([name, questions.slice(0, place + 1)]);
  const key = JSON.stringify([threadAt(number), how]);
  const [opened, setOpened] = useState(isLast ? key : ""); // what was to be answered here
  const isOpened = opened === key;
  const history = questions
    .slice(0, number)
    .map((before, place) => [before, said.get(threadAt(place)) || ""])
    .slice(-HISTORY);
  const body = { ...how, index: name, question, history, stream: true, explain: true, blocks: true };
  const reply = useAnswer(key, body, Boolean(name) && (isLast || isOpened), () =>
    remember({ ...state, questions: questions.slice(0, number + 1) }),
  );
  const { answer, spans, busy, problem } = reply;
  useEffect(() => {
    if (answer) keep(said, threadAt(number), answer.text);
  }, [answer]);
  const early = useRef(false); // whether it was asked before everything was indexed
  useEffect(() => {
    if (!indexing && early.current && isLast) reply.again();
    early.current = indexing;
  }, [indexing]);
  useEffect(() => onRank(answer ? (answer.found ? 1 : 0) + (answer.confidence ?? 0.5) : -1), [answer]);
  const link = ({ doc_id, start, end }) => linkTo({ doc: doc_id, start, end, of: isOneOfMany ? name : "" });
  const passage = (one) => html`<${Passage} key=${keyOf(one.span)} ...${{ ...one, link }}
    onlyHere=${() => go({ index: name, in: one.span.doc_id, questions: [question], ...CLOSED })} />`;
  const waiting = !isLast && !isOpened && !answer;
  const report = answer && { index: name, question, answer: answer.text.slice(0, 20_000), places: answer.citations.map((one) => one.place) };
  const shown = html`<div class="answer" aria-live="polite" aria-busy=${Boolean(busy)}>
      ${waiting
        ? html`<button onClick=${() => setOpened(key)}>Show the answer</button>`
        : html`<${Reply} ...${{ reply, link, passage }} />`}
    </div>
    <div class="row actions">
      ${busy && html`<button class="small" onClick=${reply.stop}>Stop</button>`}
      ${answer && html`<${Copy} label="Copy answer" text=${() => asMarkdown(question, answer)} />`}
      ${answer && html`<${Copy} label="Copy link" text=${() => location.href} />`}
      ${!busy && !waiting && !problem && html`<button class="small" onClick=${reply.again}>Ask again</button>`}
      ${edit && html`<button class="small" onClick=${edit}>Edit</button>`}
      ${answer && server?.feedback && html`<${Wrong} key=${key} report=${report} />`}
    </div>
    ${spans && !problem && html`<${Passages} ...${{ spans, answer, passage }} />`}`;
  if (!isOneOfMany) return shown;
  return html`<details class="of" open=${!answer || answer.found}><summary>${name}</summary>${shown}</details>`;
}

function Turn({ number }) {
  const { state, names, go } = useContext(Page);
  const { questions } = state;
  const question = questions[number];
  const isLast = number === questions.length - 1;
  const [editing, setEditing] = useState(false);
  const [ranks, setRanks] = useState({});
  const heading = useRef(null);
  useEffect(() => {
    if (isLast && number > 0) heading.current?.scrollIntoView({ block: "start" });
  }, [isLast, question]);
  const edited = (text) => {
    setEditing(false);
    if (text && text !== question) go({ questions: [...questions.slice(0, number), text], ...CLOSED });
  };
  const best = [...names].sort((one, other) => (ranks[other] ?? -1) - (ranks[one] ?? -1));
  return html`<article class="turn" aria-label=${question}>
    ${editing ? html`<${Edit} question=${question} done=${edited} />` : html`<h2 ref=${heading}>${question}</h2>`}
    ${best.map(
      (name, place) => html`<${Found} key=${name} ...${{ name, number, isLast }}
        onRank=${(rank) => setRanks((known) => ({ ...known, [name]: rank }))}
        edit=${!editing && place === 0 && (() => setEditing(true))} />`,
    )}
  </article>`;
}

export function Thread() {
  const { state } = useContext(Page);
  return html`<div class="thread">
    ${state.questions.map((question, number) => html`<${Turn} key=${`${number} ${question}`} number=${number} />`)}
  </div>`;
}
