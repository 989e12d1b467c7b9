// The HTTP API as /openapi.json describes it.

import { html, render } from "/static/vendor/htm-preact.js";
import { getJson } from "/static/requests.js";

const nameOf = (reference) => reference.split("/").at(-1);

// A type in a few words: string, integer | null, list of Span.
function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return html`<a href=${`#${nameOf(schema.$ref)}`}>${nameOf(schema.$ref)}</a>`;
  if (schema.anyOf) return schema.anyOf.map((one, place) => html`${place > 0 && " | "}${typeOf(one)}`);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return html`list of ${typeOf(schema.items || {})}`;
  return schema.type || "any";
}

function Fields({ rows, caption }) {
  if (!rows.length) return null;
  return html`<div class="table" tabindex="0"><table>
    <caption class="hidden">${caption}</caption>
    <thead><tr><th>Name</th><th>Type</th><th>Meaning</th></tr></thead>
    <tbody>
      ${rows.map(
        ({ name, schema, required, description }) => html`<tr>
          <td><code>${name}</code>${required && " (required)"}</td>
          <td>${typeOf(schema)}</td>
          <td>${description || schema.description}${schema.default != null && ` Default: ${JSON.stringify(schema.default)}`}</td>
        </tr>`,
      )}
    </tbody>
  </table></div>`;
}

const fieldsOf = (schema) =>
  Object.entries(schema.properties || {}).map(([name, one]) => ({
    name,
    schema: one,
    required: schema.required?.includes(name),
  }));

function Operation({ path, method, operation }) {
  const body = Object.entries(operation.requestBody?.content || {});
  const replies = Object.entries(operation.responses || {}).filter(([status]) => status.startsWith("2"));
  return html`<section class="turn">
    <h3><code>${method.toUpperCase()} ${path}</code></h3>
    <p>${operation.description || operation.summary}</p>
    <${Fields} caption="Parameters" rows=${operation.parameters || []} />
    ${body.map(([kind, { schema }]) => html`<p>Body (${kind}): ${typeOf(schema)}</p>`)}
    ${replies.map(
      ([status, reply]) =>
        html`<p class="quiet">
          ${status}: ${reply.description}
          ${Object.entries(reply.content || {}).map(([kind, { schema }]) => html` ${kind} ${typeOf(schema)}`)}
        </p>`,
    )}
  </section>`;
}

function Docs({ api }) {
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  const groups = Map.groupBy(operations, ({ operation }) => operation.tags?.[0] || "other");
  return html`<header class="top"><h1><a href="/">lmkrag</a></h1><span class="quiet">API ${api.info.version}</span></header>
    <div class="columns"><main>
      <h2>${api.info.title}</h2>
      <p>${api.info.description} The description for programs is <a href="/openapi.json">/openapi.json</a>.</p>
      <p>A server with a token wants the header <code>Authorization: Bearer TOKEN</code>.</p>
      ${[...groups].map(
        ([tag, members]) => html`<h2>${tag}</h2>${members.map((one) => html`<${Operation} ...${one} />`)}`,
      )}
      <h2>Types</h2>
      ${Object.entries(api.components?.schemas || {}).map(
        ([name, schema]) => html`<section class="turn" id=${name}>
          <h3><code>${name}</code></h3>
          <p>${schema.description}</p>
          <${Fields} caption=${name} rows=${fieldsOf(schema)} />
        </section>`,
      )}
    </main></div>`;
}

const root = document.getElementById("app");
getJson("/openapi.json").then(
  (api) => render(html`<${Docs} api=${api} />`, root),
  (error) => render(html`<main class="login"><p class="problem" role="alert">${error.message}</p></main>`, root),
);
