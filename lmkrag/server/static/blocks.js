// What is shown of a text: the trees of lmkrag/rendering as elements. Texts stay text nodes, links lead to the web.

import { html, useState } from "/static/vendor/htm-preact.js";

const TAGS = new Set(
  "p h1 h2 h3 h4 h5 h6 ul ol li blockquote pre code em strong s br hr table thead tbody tr th td a mark cite span".split(" "),
);
const HEADING = /^h[1-6]$/; // not one of the page's own, so it is none of its headings

// Offsets of the server count code points, strings of JavaScript UTF-16 units.
function marked({ text, start: from }, range) {
  if (!range || from < 0) return text;
  const letters = Array.from(text);
  const low = Math.max(0, range.start - from);
  const high = Math.min(letters.length, range.end - from);
  const part = (a, b) => letters.slice(a, b).join("");
  if (low >= high || /^\s*\n\s*$/.test(part(low, high))) return text; // an empty line is no place to go to
  return html`${part(0, low)}<mark class="place">${part(low, high)}</mark>${part(high)}`;
}

export function Copy({ label, text }) {
  const [done, setDone] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      setDone("Copied");
    } catch {
      setDone("The browser refused");
    }
    setTimeout(() => setDone(""), 2000);
  };
  return html`<button class="small" onClick=${copy} aria-live="polite">${done || label}</button>`;
}

export const plain = (node) => ("text" in node ? node.text : node.children.map(plain).join(""));

// range: characters to mark. cite(number): what a citation is shown as.
export function Blocks({ nodes, range, cite }) {
  const show = (node) => {
    if ("text" in node) return marked(node, range);
    const { tag, attributes } = node;
    if (tag === "cite" && cite) return cite(attributes.number);
    const children = node.children.map(show);
    if (!TAGS.has(tag)) return children;
    if (tag === "br" || tag === "hr") return html`<${tag} />`;
    if (tag === "table") return html`<div class="table" tabindex="0"><table>${children}</table></div>`;
    if (tag === "pre") {
      return html`<div class="copyable">
        <pre tabindex="0">${children}</pre><${Copy} label="Copy code" text=${() => plain(node)} />
      </div>`;
    }
    const known = {};
    if (tag === "a") Object.assign(known, { href: attributes.href, rel: "noopener noreferrer", target: "_blank" });
    if (tag === "ol" && attributes.start) known.start = attributes.start;
    if (tag === "mark") known.class = attributes.kind;
    if (tag === "span") known.class = `code-${attributes.token}`;
    if (HEADING.test(tag)) return html`<p class=${`heading ${tag}`}>${children}</p>`;
    if (attributes.align) known.class = `align-${attributes.align}`;
    return html`<${tag === "a" && !attributes.href ? "span" : tag} ...${known}>${children}<//>`;
  };
  return html`<div class="blocks">${nodes.map(show)}</div>`;
}
