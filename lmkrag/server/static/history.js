// The last questions of this browser, which keeps them for itself.

import { html, useContext, useState } from "/static/vendor/htm-preact.js";
import { ago } from "/static/ask.js";
import { addressOf, CLOSED, Page, readState } from "/static/state.js";

const KEPT = 50;
const NAME = "questions";

export function stored(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise; // nothing is kept, or something else
  }
}

export function store(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // a browser that keeps nothing
  }
}

// Keeps the last question of a state, with those before it.
export function remember(state) {
  const address = addressOf({ ...state, view: "", ...CLOSED });
  const others = stored(NAME, []).filter((one) => one.address !== address);
  store(NAME, [{ question: state.questions.at(-1), address, asked: new Date().toISOString() }, ...others].slice(0, KEPT));
}

export function History() {
  const { linkTo } = useContext(Page);
  const [known, setKnown] = useState(() => stored(NAME, []));
  const [words, setWords] = useState("");
  const keep = (left) => {
    store(NAME, left);
    setKnown(left);
  };
  const shown = known.filter(({ question }) => question.toLowerCase().includes(words.toLowerCase()));
  return html`<section class="history" aria-labelledby="history-title">
    <h2 id="history-title">History</h2>
    <p class="quiet">The last ${KEPT} questions that were asked in this browser. Nobody else sees them.</p>
    ${known.length > 0 &&
    html`<div class="fields">
      <label>Search <input type="search" value=${words} onInput=${(event) => setWords(event.target.value)} /></label>
      <button onClick=${() => keep([])}>Delete all</button>
    </div>`}
    ${!shown.length && html`<p class="quiet">${known.length ? "No question has these words." : "There are no questions yet."}</p>`}
    <ul class="contents">
      ${shown.map(
        (one) => html`<li key=${one.address} class="line">
          <a ...${linkTo(readState(one.address))}>${one.question}</a>
          <span class="quiet">${ago(one.asked)}</span>
          <button class="small" aria-label=${`Delete ${one.question}`} onClick=${() => keep(known.filter((other) => other !== one))}>Delete</button>
        </li>`,
      )}
    </ul>
  </section>`;
}
