// Requests to the server: JSON, problems as errors, and server-sent events of any method.

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || `The server answered with status ${status}.`);
    this.status = status;
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
  throw new Problem(response.status, body);
}

export async function getJson(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value != null));
  const response = await fetch(query.size ? `${path}?${query}` : path, { signal });
  return (await check(response)).json();
}

export async function postJson(path, body, signal = undefined) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  await check(response);
  return response.status === 204 ? null : response.json();
}

export async function putFile(path, file) {
  const response = await fetch(path, {
    method: "PUT",
    headers: { "Content-Type": "application/octet-stream" },
    body: file,
  });
  return (await check(response)).json();
}

// Yields {event, data} of a stream.
export async function* streamEvents(path, options) {
  const response = await check(await fetch(path, options));
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
