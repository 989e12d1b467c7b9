// The colours that somebody chose, before anything is drawn: "light", "dark" or those of the system.

try {
  document.documentElement.dataset.theme = JSON.parse(localStorage.getItem("theme")) ?? "";
} catch {
  // a browser that keeps nothing: the system decides
}
