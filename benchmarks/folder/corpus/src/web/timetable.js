// Draws the timetable. No framework: the page must work on the harbour's old tablets.

const REFRESH_SECONDS = 45;

export function nextCrossing(crossings, now) {
  return crossings.find((crossing) => crossing.departs > now && !crossing.cancelled) ?? null;
}

export function minutesLeft(crossing, now) {
  return Math.max(0, Math.round((crossing.departs - now) / 60_000));
}

export async function loadTimetable(url, { timeout = 8000 } = {}) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), timeout);
  try {
    const response = await fetch(url, { signal: controller.signal, cache: "no-store" });
    if (!response.ok) throw new Error(`timetable: ${response.status}`);
    return await response.json();
  } finally {
    clearTimeout(timer);
  }
}

export function colourOf(crossing) {
  if (crossing.cancelled) return "crimson";
  if (crossing.delay > 10) return "darkorange";
  return "seagreen";
}
