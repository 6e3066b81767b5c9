// The page of a studio: what runs, the library, and one video. It only reads; all text from files is set as text.
"use strict";

const view = document.getElementById("view"), search = document.getElementById("search"), notice = document.getElementById("notice");
let videos = [], before = null, pages = 1, jobs = [], end = () => {}, shown = null;

const warn = (text = "") => { notice.textContent = text; notice.hidden = !text; };
const SENTENCES = {
  404: "This ladder was deleted or replaced, or its disk is not there.",
  0: "The page does not answer: it was closed, or was not used for a while. Open it again: tqstudio open",
  none: "This browser plays HLS only with hls.js, which this installation lacks: install Node.js, then run make, or install the wheel.",
  native: "hls.js is missing, so qualities cannot be chosen: install Node.js, then run make, or install the wheel.",
};
const reason = (what, body) => {
  let said = {};
  try { said = JSON.parse(body); } catch { /* of a server that gives no reason */ }
  return [said.message, said.hint].filter(Boolean).join(" – ") || (SENTENCES[what] ?? SENTENCES[0]);
};
const ask = async (path) => {
  const answer = await fetch(`api/${path}`).catch(() => ({ status: 0, text: () => "" })), body = await answer.text();
  if (!answer.ok) throw new Error(reason(answer.status, body));
  return JSON.parse(body);
};

const pictures = (each) => each.ladder?.renditions.filter((r) => r.kind === "video") ?? [];
const length = (each) => Math.max(0, ...(each.ladder?.renditions.map((r) => r.duration_s) ?? []));
const heights = (each) => [...new Set(pictures(each).map((r) => r.height))].map((h) => `${h}p`).join(" ");
const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);
const poster = (each) => `ladder/${each.id}/-/v${each.ladder.version}/poster.jpg`;
const state = (each) => (each.viewable ? `${each.viewable} so far` : each.ladder ? (pictures(each).length ? "" : "sound") : each.status);

function card(each) {
  const frame = el("div", { class: "frame" });
  if (each.ladder?.poster) frame.append(el("img", { src: poster(each), loading: "lazy", alt: "", onerror: (event) => event.target.remove() }));
  frame.append(each.ladder ? el("span", { class: "length" }, clock(length(each))) : el("p", {}, each.error ?? ""));
  const about = el("div", { class: "about" }, el("h3", { title: each.title || each.name }, each.title || each.name),
    el("p", {}, heights(each), state(each) ? el("span", { class: `state ${each.status}` }, state(each)) : ""));
  return el("a", { class: "card", href: `#/video/${each.id}` }, frame, about);
}

function running(job) {
  const about = [job.step && job.status === "in_progress" ? job.step.replaceAll("_", " ") : job.word,
    job.speed ? `${job.speed.toFixed(1)}×` : "", job.eta_s && job.status === "in_progress" ? `${clock(job.eta_s)} left` : ""];
  const bar = (name, value, text) => el("progress", { max: 100, value, "aria-label": name, title: text ?? "" });
  const qualities = job.renditions.filter((r) => r.status !== "skipped").map((r) =>
    el("li", {}, el("span", {}, r.name), bar(`${job.name} ${r.name}`, r.progress), el("span", { class: "number" }, `${Math.floor(r.progress)} %`)));
  return el("li", { class: job.status, id: `job-${job.id}` },
    el("div", { class: "line" }, el("strong", {}, job.name), el("span", { class: "dim" }, about.filter(Boolean).join(" · ")),
      el("span", { class: "number" }, `${Math.floor(job.progress)} %`)),
    bar(job.name, job.progress), job.status === "in_progress" ? el("ul", { class: "qualities" }, ...qualities) : "");
}

function drawJobs() {
  const list = document.getElementById("jobs");
  if (!list) return;
  list.replaceChildren(...jobs.map(running));
  list.parentElement.hidden = !jobs.length;
}

function drawLibrary() {
  const grid = document.getElementById("grid");
  if (!grid) return;
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = videos.filter((each) => words.every((word) => `${each.title} ${each.name} ${heights(each)}`.toLowerCase().includes(word)));
  grid.replaceChildren(...found.map(card));
  const none = videos.length || before ? "Nothing found." : "No videos yet. Drop one into a watched folder, or: tqstudio add film.mp4";
  document.getElementById("none").textContent = found.length ? "" : none;
  document.getElementById("more").hidden = before === null;
}

// Shows so many pages as were shown, and as many more as it is asked for.
function more(count) {
  pages += count;
  return reload();
}

async function reload() {
  try {
    const found = [await ask("videos")];
    while (found.length < pages && found.at(-1).before) found.push(await ask(`videos/${found.at(-1).before}`));
    jobs = await ask("jobs");
    videos = found.flatMap((page) => page.videos);
    before = found.at(-1).before;
    warn();
  } catch (error) { warn(error.message); }
  drawJobs();
  drawLibrary();
}

function library() {
  view.replaceChildren(
    el("section", { class: "running", hidden: true }, el("h2", {}, "Now running"), el("ul", { id: "jobs" })),
    el("section", {}, el("h2", {}, "Library"), el("div", { id: "grid" }), el("p", { id: "none", class: "dim" }),
      el("button", { id: "more", type: "button", hidden: true, onclick: () => more(1) }, "Show more")));
  document.title = "tqstudio";
  drawJobs();
  return reload();
}

function copying(name, text) {
  const button = el("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } }, "Copy");
  return el("div", { class: "copy" }, el("span", {}, name), el("code", {}, text), button);
}

const quoted = (path) => (/^[\w/.-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

async function one(id) {
  const each = await ask(`video/${id}`).catch((error) => ({ trouble: error.message }));
  if (shown !== `#/video/${id}` || view.querySelector(".player")) return;
  const title = each.title || each.name || "Video";
  document.title = `${title} – tqstudio`;
  const trouble = each.trouble ?? (!each.ladder ? `It has no ladder${each.error ? `: ${each.error}` : ", or it was deleted."}` : each.ladder.folder ? "" : "Its segments are in a bucket: play it from there.");
  view.replaceChildren(el("nav", {}, el("a", { href: "#/" }, "← Library")), el("h1", {}, title));
  if (trouble) return void view.append(el("p", { class: "message" }, trouble));
  const base = `ladder/${id}/${crypto.getRandomValues(new Uint32Array(2)).join("")}/`;
  end = play(view, base, reason);
  const rows = each.ladder.renditions.map((r) => el("tr", {}, ...[r.name, r.height ? `${r.width}×${r.height}` : "", r.codecs,
    `${Math.round(r.average_bps / 1000)} kb/s`, size(r.size)].map((text) => el("td", {}, text))));
  const heads = ["Rendition", "Size", "Codec", "Rate", "Bytes"].map((text) => el("th", { scope: "col" }, text));
  const name = each.ladder.folder.split("/").pop();
  view.append(
    el("details", {}, el("summary", {}, `Facts: ${[clock(length(each)), heights(each), size(each.ladder.renditions.reduce((sum, r) => sum + r.size, 0)),
      `version ${each.ladder.version}`].filter(Boolean).join(" · ")}`), el("div", { class: "scrolls" }, el("table", {}, el("tr", {}, ...heads), ...rows))),
    el("details", {}, el("summary", {}, "Embed"),
      el("p", {}, "Write a player page beside the ladder, put the folder on any web server, and show it in a page of yours:"),
      copying("1", `tqstudio embed ${quoted(each.ladder.folder)}`),
      copying("2", `<iframe src="https://example.com/${encodeURIComponent(name)}/" title="${title.replaceAll("&", "&amp;").replaceAll('"', "&quot;")}" width="960" height="600" allowfullscreen></iframe>`)));
}

function route() {
  end();
  end = () => {};
  shown = location.hash;
  const found = /^#\/video\/(\d+)$/.exec(shown);
  search.hidden = Boolean(found);
  view.replaceChildren(el("p", { class: "dim" }, "…"));
  return found ? one(found[1]) : library();
}

let waiting = null;
const changed = () => { waiting ??= setTimeout(() => { waiting = null; if (document.getElementById("grid")) reload(); else one(shown.split("/").pop()); }, 500); };
const events = new EventSource("api/events");
events.addEventListener("changed", changed);
events.addEventListener("progress", ({ data }) => {
  for (const live of JSON.parse(data)) Object.assign(jobs.find((job) => job.id === live.id) ?? {}, live);
  drawJobs();
});
events.onopen = changed;
search.oninput = () => {
  if (before !== null && pages < Infinity) more(Infinity); // the search is among all
  drawLibrary();
};
addEventListener("hashchange", route);
route();
