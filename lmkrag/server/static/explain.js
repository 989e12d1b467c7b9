// Why a passage was found: the parts of its score as bars, the words, and how far it grew.

import { html } from "/static/vendor/htm-preact.js";

const NAMES = {
  similarity: "Similarity of the sentence",
  words: "Words of the sentence",
  paragraph: "Best of its paragraph",
  document: "Best of its document",
};

function Bar({ name, share, value, weight }) {
  const shown = (value * weight).toFixed(3);
  return html`<tr>
    <th scope="row">${NAMES[name] || `Best of ${name}`}</th>
    <td><progress max="1" value=${Math.min(1, Math.max(0, share))} aria-label=${`${name}: ${shown}`}></progress></td>
    <td class="number">${shown}</td>
  </tr>`;
}

export function Why({ explanation }) {
  const most = Math.max(...explanation.parts.map((part) => part.value * part.weight), 1e-9);
  const sides = [
    ["before", explanation.sentences_before, explanation.stopped_before, explanation.added_before],
    ["after", explanation.sentences_after, explanation.stopped_after, explanation.added_after],
  ];
  return html`<details class="why">
    <summary>Why this passage</summary>
    <table>
      <caption>Score ${explanation.score.toFixed(3)}</caption>
      <tbody>
        ${explanation.parts.map((part) => html`<${Bar} ...${part} share=${(part.value * part.weight) / most} />`)}
        ${explanation.factors.map(
          (factor) => html`<tr><th scope="row">Times: ${factor.name}</th><td></td>
            <td class="number">${factor.value.toFixed(3)}</td></tr>`,
        )}
      </tbody>
    </table>
    ${explanation.words.length > 0 && html`<p>Words of the question: ${explanation.words.join(", ")}</p>`}
    ${sides.map(
      ([side, count, why, added]) =>
        (why || added > 0) &&
        html`<p>
          Taken ${side}: ${count} ${count === 1 ? "sentence" : "sentences"}${added > 0 &&
          ` and ${added} characters that it needs to be understood`}. ${why && `It stopped because ${why}.`}
        </p>`,
    )}
  </details>`;
}
