// Shown inside Airflow's page: take its colours, and let links to Airflow lead the whole window.
(() => {
  let outer = null;
  try { outer = window.parent !== window ? window.parent.document : null; } catch { outer = null; }
  const root = document.documentElement;
  const paint = () => {
    if (!outer) return;
    root.dataset.theme = outer.documentElement.classList.contains("dark") ? "dark" : "light";
    root.style.setProperty("--ground", window.parent.getComputedStyle(outer.body).backgroundColor);
  };
  paint();
  if (!outer) return;
  new MutationObserver(paint).observe(outer.documentElement, { attributeFilter: ["class"] });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-out]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const through = outer.createElement("a");
    through.href = link.href;
    outer.body.append(through);
    through.click();
    through.remove();
  });
})();
