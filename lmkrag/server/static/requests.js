// Requests to the server: JSON, problems as errors, and server-sent events of any method.

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || `The server answered with status ${status}.`);
    this.status = status;
  }
}

const TRIES = 2; // of a request that a busy server refuses

// Status 0: no answer came.
async function send(path, options) {
  try {
    for (let tries = 1; ; tries += 1) {
      const response = await fetch(path, options);
      if (response.status !== 429 || tries === TRIES) return response;
      const seconds = Number(response.headers.get("Retry-After")) || 1;
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      options?.signal?.throwIfAborted();
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The server can't be reached. Is it still running?" });
  }
}

async function check(response) {
  if (response.ok) return response;
  let body = null;
  try {
    body = await response.json();
  } catch {
    // not JSON: the status alone has to do
  }
  const problem = new Problem(response.status, body);
  if (problem.status === 401) dispatchEvent(new CustomEvent("unauthorized", { detail: problem }));
  throw problem;
}

export async function getJson(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
  return (await check(await send(query.size ? `${path}?${query}` : path, { signal }))).json();
}

export const asJson = (body, signal) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
  signal,
});

export async function postJson(path, body) {
  await check(await send(path, asJson(body)));
}

export async function putFile(path, file) {
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    throw new Problem(0, { detail: "It can't be read; drop the files of a folder, not the folder." });
  }
  const headers = { "Content-Type": "application/octet-stream" };
  return (await check(await send(path, { method: "PUT", headers, body: file }))).json();
}

export async function remove(path, { keepalive = false } = {}) {
  return (await check(await send(path, { method: "DELETE", keepalive }))).json();
}

// Yields {event, data} of a stream.
export async function* streamEvents(path, options) {
  const response = await check(await send(path, options));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  while (true) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const text of events) {
      let event = "message";
      const data = [];
      for (const line of text.split("\n")) {
        if (line.startsWith("event:")) event = line.slice(6).trim();
        else if (line.startsWith("data:")) data.push(line.slice(5).trim());
      }
      if (data.length) yield { event, data: JSON.parse(data.join("\n")) };
    }
  }
}

export const documentPath = (docId) => `/api/documents/${encodeURIComponent(docId)}`;
