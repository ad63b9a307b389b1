// Starts the page: theme, module, sections, the mark of the section in view.

const themes = ["system", "light", "dark"];
const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function remembered(value) {
  try {
    if (value !== undefined) localStorage.setItem("theme", value);
    return localStorage.getItem("theme");
  } catch {
    return null; // storage may be closed to files; the choice then holds for this visit
  }
}

function startTheme() {
  let theme = themes.includes(remembered()) ? remembered() : "system";
  const show = () => {
    const dark = theme === "dark" || (theme === "system" && darkSystem.matches);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    find("theme").textContent = `Theme: ${theme}`;
  };
  find("theme").addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    remembered(theme);
    show();
  });
  darkSystem.addEventListener("change", show);
  show();
}

function markSectionInView() {
  const links = [...document.querySelectorAll(".top nav a")];
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links) {
        const current = link.hash === `#${entry.target.id}`;
        if (current) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
        if (current) link.closest("nav").scrollLeft = link.offsetLeft - 60;
      }
    }
  }, { rootMargin: "-30% 0px -65% 0px" });
  document.querySelectorAll("section").forEach((section) => watcher.observe(section));
}

startTheme();
textbook.load().then(() => {
  for (const start of sections) start();
  const count = Object.values(textbook.parameters()).reduce((n, t) => n + t.values.length, 0);
  find("model-size").textContent =
    `2 blocks, 2 heads, width 8, 27 letters, ${count} weights`;
  find("state").textContent = "The code is running in this page; nothing is sent anywhere.";
  find("state").classList.add("good");
  markSectionInView();
  // For those who want to compute with it themselves, and for the tests.
  window.textbook = textbook;
  document.documentElement.dataset.ready = "true";
}).catch((problem) => {
  find("state").textContent = `The code could not be started: ${problem.message}`;
  find("state").classList.add("bad");
});
