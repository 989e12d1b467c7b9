// What the page shows, as its address says: any state can be sent to somebody else.

import { createContext } from "/static/vendor/htm-preact.js";

const TEXTS = ["index", "view", "mode", "folder", "kind", "from", "to", "in", "doc", "of"];
const NUMBERS = ["start", "end"];

export const ALL = "*"; // the index of a state that asks every index
export const CLOSED = { doc: "", of: "", start: null, end: null }; // of: the index of the document, where all are asked

// The state, go(changes), and what else every part of the page needs.
export const Page = createContext(null);

export function readState(address = location.href) {
  const parameters = new URL(address, location.href).searchParams;
  const state = Object.fromEntries(TEXTS.map((name) => [name, parameters.get(name) || ""]));
  state.questions = parameters.getAll("q").map((question) => question.trim()).filter(Boolean);
  for (const name of NUMBERS) {
    const value = Number.parseInt(parameters.get(name) ?? "", 10);
    state[name] = Number.isNaN(value) ? null : value;
  }
  return state;
}

export function addressOf(state) {
  const parameters = new URLSearchParams();
  if (state.index) parameters.set("index", state.index);
  for (const question of state.questions) parameters.append("q", question);
  for (const name of [...TEXTS.slice(1), ...NUMBERS]) {
    const value = state[name];
    if (value !== "" && value != null) parameters.set(name, String(value));
  }
  return parameters.size ? `/?${parameters}` : "/";
}

const quote = (value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

// What a state looks in, as options of a search; null where there is no limit.
export function optionsOf(state) {
  const terms = [];
  if (state.in) terms.push(`doc_id=${quote(state.in)}`);
  if (state.folder) terms.push(`path=${state.folder.replace(/\/+$/, "").replace(/[\s()=<>!"']/g, "?")}/*`);
  if (state.kind) terms.push(`kind=${quote(state.kind)}`);
  const filter = terms.join(" and ") || null;
  return { mode: state.mode || "hybrid", filter, since: state.from || null, until: state.to || null };
}
