// Plays one ladder with menus, chapters and a storyboard. The page of tqstudio uses it, and pages by `tqstudio embed`.
"use strict";

const el = (tag, given = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
};

const clock = (seconds) => {
  const s = Math.floor(seconds || 0), two = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
};

const ICONS = {
  play: "M6 3l15 9-15 9z",
  pause: "M5 3h5v18H5zM14 3h5v18h-5z",
  sound: "M3 9v6h4l6 5V4L7 9zM16 8a5 5 0 010 8v-2.200a2.500 2.500 0 000-3.600z",
  muted: "M3 9v6h4l6 5V4L7 9zM15 9l1.500-1.500 2 2 2-2L22 9l-2 2 2 2-1.500 1.500-2-2-2 2L15 13l2-2z",
  full: "M3 3h7v2.500H5.500V10H3zM14 3h7v7h-2.500V5.500H14zM3 14h2.500v4.500H10V21H3zM18.500 14H21v7h-7v-2.500h4.500z",
};

const draw = (button, icon, label) => {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[icon]);
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path);
  button.replaceChildren(svg);
  button.title = label;
  button.setAttribute("aria-label", label);
};

const AGAIN_MS = 4000;
// What visitors of an embedded page read; only its operator can mend it.
const PLAIN = { native: "", none: "This browser cannot play the video." };
const plainly = (what) => PLAIN[what] ?? "The video cannot be loaded.";

// Plays the ladder at `base`, which ends with a slash; returns what ends it. `reason` gives the sentence of a status and its body.
function play(root, base, reason = plainly) {
  const video = el("video", { playsInline: true, preload: "auto" });
  const message = el("p", { class: "message", role: "alert", hidden: true });
  const seek = el("input", { type: "range", min: 0, max: 1, step: "any", value: 0, "aria-label": "Position" });
  const marks = el("div", { class: "marks" });
  const picture = el("div", { class: "picture" }), caption = el("span");
  const preview = el("div", { class: "preview", hidden: true }, picture, caption);
  const [toggle, mute, full] = ["play", "mute", "full"].map((name) => el("button", { type: "button", class: name }));
  const volume = el("input", { type: "range", min: 0, max: 1, step: 0.05, value: 1, class: "volume", "aria-label": "Volume" });
  const time = el("span", { class: "time" }), now = el("span", { class: "now" });
  const menu = (name) => el("select", { "aria-label": name, class: name.toLowerCase() });
  const [quality, sound, subtitles] = ["Quality", "Sound", "Subtitles"].map(menu);
  const menus = [quality, sound, subtitles].map((each) => el("label", { hidden: true }, el("span", {}, each.getAttribute("aria-label")), each));
  const chapters = el("ol", { class: "chapters", hidden: true, "aria-label": "Chapters" });
  const stage = el("div", { class: "stage" }, video, message, el("div", { class: "controls" },
    el("div", { class: "seek" }, seek, marks, preview),
    el("div", { class: "bar" }, toggle, mute, volume, time, now, ...menus, full)));
  root.append(el("div", { class: "player" }, stage, chapters));

  let list = [], tiles = [], hls = null, recovered = false, waiting = null;
  const say = (text, again = false) => {
    message.replaceChildren(text, ...(again ? [el("button", { type: "button", onclick: () => location.reload() }, "Reload")] : []));
    message.hidden = !text;
  };
  const fill = (select, options, chosen) => {
    select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
    select.value = chosen;
    select.parentElement.hidden = options.length < 2;
  };
  const fetched = async (name) => {
    const answer = await fetch(base + name);
    if (!answer.ok) throw new Error(answer.status);
    return answer.text();
  };
  const start = () => video.play().catch(() => {});
  const chapterAt = (at) => list.findLast((each) => each["start-time"] <= at);
  const titleOf = (each) => each.titles?.[0]?.title ?? `Chapter ${each.chapter}`;

  // What the playlists do not say to hls.js: chapters, poster and storyboard, in the folder of the version that is named.
  async function beside() {
    const master = await fetched("master.m3u8");
    const version = master.split("\n").find((line) => line && line[0] !== "#").split("/").slice(0, -2).join("/");
    const named = /DATA-ID="com\.apple\.hls\.chapters",URI="([^"]+)"/.exec(master);
    if (named) list = JSON.parse(await fetched(named[1]));
    chapters.replaceChildren(...list.map((each) => el("li", {}, el("button", { type: "button", onclick: () => { video.currentTime = each["start-time"]; start(); } },
      el("span", { class: "time" }, clock(each["start-time"])), titleOf(each)))));
    chapters.hidden = !list.length;
    place();
    if (!master.includes("RESOLUTION=")) return; // sound alone
    video.poster = `${base}${version}/poster.jpg`;
    const cues = await fetched(`${version}/storyboard.vtt`).catch(() => "");
    const seconds = (text) => text.split(":").reduce((sum, part) => 60 * sum + Number(part), 0);
    tiles = [...cues.matchAll(/([\d:.]+) --> .*\n(.+)#xywh=(\d+),(\d+),(\d+),(\d+)/g)].map(([, at, name, ...box]) =>
      ({ at: seconds(at), url: `${base}${version}/${name}`, box: box.map(Number) }));
  }
  const place = () => marks.replaceChildren(...list.slice(1).map((each) => {
    const mark = el("i");
    mark.style.left = `${(100 * each["start-time"]) / (video.duration || 1)}%`;
    return mark;
  }));

  function withHls() {
    hls = new Hls({ enableWorker: false });
    const { Events, ErrorTypes } = Hls;
    const auto = () => `Auto${hls.autoLevelEnabled && hls.levels[hls.currentLevel] ? ` (${levelName(hls.levels[hls.currentLevel])})` : ""}`;
    const levelName = (each) => {
      const alike = hls.levels.filter((other) => other.height === each.height);
      const codec = new Set(alike.map((other) => other.videoCodec)).size > 1 ? ` ${each.videoCodec.split(".")[0]}` : "";
      const range = (each.videoRange ?? "SDR") === "SDR" ? "" : " HDR";
      return each.height ? `${each.height}p${codec}${range}` : `${Math.round(each.bitrate / 1000)} kb/s`;
    };
    hls.on(Events.MANIFEST_PARSED, () => {
      say("");
      beside().catch(() => {});
      fill(quality, [[-1, auto()], ...hls.levels.map((each, at) => [at, levelName(each)]).reverse()], -1);
      start();
    });
    hls.on(Events.LEVEL_SWITCHED, () => { if (quality.options[0]) quality.options[0].text = auto(); });
    const tracks = (select, found, chosen, none) => fill(select, [...none, ...found.map((each, at) => [at, each.name])], chosen);
    hls.on(Events.AUDIO_TRACKS_UPDATED, () => tracks(sound, hls.audioTracks, Math.max(hls.audioTrack, 0), []));
    hls.on(Events.AUDIO_TRACK_SWITCHED, () => { sound.value = hls.audioTrack; });
    hls.on(Events.SUBTITLE_TRACKS_UPDATED, () => tracks(subtitles, hls.subtitleTracks, hls.subtitleTrack, [[-1, "No subtitles"]]));
    hls.on(Events.SUBTITLE_TRACK_SWITCH, () => { subtitles.value = hls.subtitleTrack; });
    hls.on(Events.FRAG_BUFFERED, () => say(""));
    const again = () => {
      if (!hls.levels.length) return hls.loadSource(`${base}master.m3u8`);
      hls.loadLevel = Number(quality.value); // hls.js drops the choice at an error
      return hls.startLoad();
    };
    hls.on(Events.ERROR, (_, { type, fatal, response, details, networkDetails }) => {
      const status = response?.code ?? 0, body = networkDetails?.response;
      if (type === ErrorTypes.NETWORK_ERROR && (fatal || status === 503)) {
        say(reason(status, typeof body === "string" ? body : new TextDecoder().decode(body ?? undefined)), true);
        clearTimeout(waiting);
        if (fatal && status !== 404) waiting = setTimeout(again, AGAIN_MS);
      } else if (fatal && !recovered) { recovered = true; hls.recoverMediaError(); }
      else if (fatal) say(`It cannot be played: ${details}`, true);
    });
    quality.onchange = () => { hls.currentLevel = Number(quality.value); quality.options[0].text = auto(); };
    sound.onchange = () => { hls.audioTrack = Number(sound.value); };
    subtitles.onchange = () => { hls.subtitleDisplay = true; hls.subtitleTrack = Number(subtitles.value); };
    again();
    hls.attachMedia(video);
  }

  function withoutHls() {
    if (!video.canPlayType("application/vnd.apple.mpegurl")) return say(reason("none"));
    say(reason("native"));
    beside().catch(() => {});
    video.src = `${base}master.m3u8`;
    const texts = () => [...video.textTracks].filter((each) => each.kind !== "metadata");
    video.textTracks.onaddtrack = () => fill(subtitles, [[-1, "No subtitles"], ...texts().map((each, at) => [at, each.label])], -1);
    subtitles.onchange = () => texts().forEach((each, at) => { each.mode = at === Number(subtitles.value) ? "showing" : "disabled"; });
    const sounds = video.audioTracks;
    if (sounds) sounds.onaddtrack = () => fill(sound, [...sounds].map((each, at) => [at, each.label]), 0);
    sound.onchange = () => [...sounds].forEach((each, at) => { each.enabled = at === Number(sound.value); });
    video.onerror = () => say(reason(404), true);
    return start();
  }

  const shown = () => {
    seek.value = video.currentTime;
    time.textContent = `${clock(video.currentTime)} / ${clock(video.duration)}`;
    seek.setAttribute("aria-valuetext", time.textContent);
    seek.style.setProperty("--done", `${(100 * video.currentTime) / (video.duration || 1)}%`);
    const chapter = chapterAt(video.currentTime);
    now.textContent = chapter ? titleOf(chapter) : "";
    [...chapters.children].forEach((item, at) => item.classList.toggle("current", list[at] === chapter));
  };
  const buttons = () => {
    draw(toggle, video.paused ? "play" : "pause", video.paused ? "Play" : "Pause");
    draw(mute, video.muted || !video.volume ? "muted" : "sound", video.muted ? "Unmute" : "Mute");
    draw(full, "full", "Full screen");
    volume.style.setProperty("--done", `${100 * (video.muted ? 0 : video.volume)}%`);
  };
  video.ondurationchange = () => { seek.max = video.duration || 1; place(); shown(); };
  video.ontimeupdate = video.onseeking = shown;
  video.onplay = video.onpause = video.onvolumechange = buttons;
  seek.oninput = () => { video.currentTime = seek.value; };
  volume.oninput = () => { video.volume = volume.value; video.muted = false; };
  video.onclick = toggle.onclick = () => (video.paused ? start() : video.pause());
  mute.onclick = () => { video.muted = !video.muted; };
  full.onclick = () => (document.fullscreenElement ? document.exitFullscreen() : (stage.requestFullscreen ?? (() => video.webkitEnterFullscreen())).call(stage));
  seek.onpointermove = ({ clientX }) => {
    const { left, width } = seek.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (clientX - left) / width)), at = share * (video.duration || 0);
    const tile = tiles.findLast((each) => each.at <= at), chapter = chapterAt(at);
    picture.hidden = !tile;
    if (tile) {
      const [x, y, w, h] = tile.box;
      Object.assign(picture.style, { width: `${w}px`, height: `${h}px`, background: `url("${tile.url}") -${x}px -${y}px` });
    }
    caption.textContent = clock(at) + (chapter ? ` · ${titleOf(chapter)}` : "");
    preview.hidden = false;
    const half = preview.offsetWidth / 2;
    preview.style.left = `${Math.min(width - half, Math.max(half, share * width))}px`;
  };
  seek.onpointerleave = () => { preview.hidden = true; };
  const keys = {
    " ": toggle.onclick, k: toggle.onclick, f: full.onclick, m: mute.onclick,
    ArrowLeft: () => { video.currentTime -= 5; }, ArrowRight: () => { video.currentTime += 5; },
  };
  const onKey = (event) => {
    const inField = event.target.closest("input:not([type=range]), select") || (event.key === " " && event.target.closest("button"));
    if (inField || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };
  document.addEventListener("keydown", onKey);
  buttons();
  shown();
  if (window.Hls?.isSupported()) withHls();
  else withoutHls();
  return () => {
    document.removeEventListener("keydown", onKey);
    clearTimeout(waiting);
    hls?.destroy();
    video.removeAttribute("src");
    video.load();
  };
}
