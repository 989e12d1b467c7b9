// How well every sentence of a document fits the question, as a strip beside its text.

import { html, useEffect, useMemo, useState } from "/static/vendor/htm-preact.js";
import { documentPath, getJson } from "/static/requests.js";

const NEAR = 3; // sentences to each side that a peak is above

export function findPeaks(sentences) {
  const mean = sentences.reduce((sum, sentence) => sum + sentence.score, 0) / (sentences.length || 1);
  const most = Math.max(...sentences.map((sentence) => sentence.score), 0);
  const least = mean + (most - mean) / 2;
  return sentences
    .map((sentence, number) => ({ sentence, number }))
    .filter(
      ({ sentence, number }) =>
        sentence.score >= least &&
        sentences.slice(Math.max(0, number - NEAR), number + NEAR + 1).every((other) => other.score <= sentence.score),
    )
    .map(({ number }) => number);
}

export function Strip({ docId, index, sentences, characters, start, goTo }) {
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
        (sentence, number) => html`<rect x="0" y=${sentence.start} width=${4 + (96 * (sentence.score - low)) / (high - low)}
          height=${Math.max(sentence.end - sentence.start, characters / 800)} class=${number === here ? "here" : ""} />`,
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
    const position = sentences.findIndex((sentence) => place < sentence.end);
    return position < 0 ? sentences.length - 1 : position;
  };
  return html`<div class="strip">
    <svg viewBox=${`0 0 100 ${characters}`} preserveAspectRatio="none" role="slider" tabindex="0" aria-orientation="vertical"
      aria-label="Relevance of every sentence; arrow keys go to the next peak"
      aria-valuemin="0" aria-valuemax=${sentences.length - 1} aria-valuenow=${Math.max(0, here)}
      aria-valuetext=${here < 0 ? "no sentence" : `sentence ${here + 1}, score ${scores[here].toFixed(2)}`}
      onKeyDown=${onKeyDown}
      onMouseMove=${(event) => setHovered(numberAt(event))}
      onMouseLeave=${() => setHovered(null)}
      onClick=${(event) => go(numberAt(event))}
    >${bars}</svg>
    ${shown && html`<p class="sentence" aria-hidden="true">${text}</p>`}
  </div>`;
}
