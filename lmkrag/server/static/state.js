// What the page shows, as its address says: any state can be sent to somebody else.

const TEXTS = ["index", "q", "mode", "folder", "kind", "from", "to", "doc"];
const NUMBERS = ["start", "end"];

export function readState() {
  const parameters = new URLSearchParams(location.search);
  const state = Object.fromEntries(TEXTS.map((name) => [name, parameters.get(name) || ""]));
  for (const name of NUMBERS) {
    const value = Number.parseInt(parameters.get(name) ?? "", 10);
    state[name] = Number.isNaN(value) ? null : value;
  }
  return state;
}

export function writeState(state, replace = false) {
  const parameters = new URLSearchParams();
  for (const name of [...TEXTS, ...NUMBERS]) {
    const value = state[name];
    if (value !== "" && value != null) parameters.set(name, String(value));
  }
  const address = parameters.size ? `/?${parameters}` : "/";
  history[replace ? "replaceState" : "pushState"](null, "", address);
}

const quote = (value) => `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;

// The filter expression of the fields for folder, kind and date; empty for none.
export function filterOf(state) {
  const terms = [];
  if (state.folder) terms.push(`path=${state.folder.replace(/\/+$/, "").replace(/[\s()=<>!"']/g, "?")}/*`);
  if (state.kind) terms.push(`kind=${quote(state.kind)}`);
  if (state.from) terms.push(`date>=${quote(state.from)}`);
  if (state.to) terms.push(`date<=${quote(state.to)}`);
  return terms.join(" and ");
}
