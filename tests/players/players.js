// One interface to all players, for tests: each lists and selects qualities, sound and subtitles, and what happens is reported.
"use strict";

const video = document.getElementById("video");
const BITS = 16;
const LIMIT_MS = 30_000;
const STALL_MS = 5_000;

class HlsJs {
  async open(url, complain, inTurn) {
    this.hls = new Hls();
    this.hls.on(Hls.Events.ERROR, (_, data) => {
      // A load that a seek or another choice made needless; a decoder that is slow, see the event `waiting`.
      const { INTERNAL_ABORTED, BUFFER_APPEND_NO_PROGRESS, BUFFER_STALLED_ERROR } = Hls.ErrorDetails;
      const slow = data.details === BUFFER_STALLED_ERROR && data.bufferInfo?.len > 0.1;
      // It reads no edit lists: where pictures are reordered, a change of the quality loads the segment before it again.
      const again = data.details === BUFFER_APPEND_NO_PROGRESS && !data.fatal;
      if (data.details !== INTERNAL_ABORTED && !slow && !again) complain(`${data.details} ${data.error?.message ?? data.reason ?? ""}`);
    });
    if (inTurn) this.hls.on(Hls.Events.FRAG_BUFFERED, (_, { frag }) => { if (frag.type === "main" && frag.level === this.hls.loadLevel) this.hls.loadLevel = turn(this.levels()); });
    this.hls.loadSource(url);
    this.hls.attachMedia(video);
    await new Promise((resolve) => this.hls.once(Hls.Events.LEVEL_UPDATED, resolve));
  }
  levels() {
    return this.hls.levels.map((each) => ({ height: each.height, width: each.width, codec: each.videoCodec, range: each.videoRange }));
  }
  level(number) { this.hls.currentLevel = number; }
  playing() { return this.hls.currentLevel; }
  sounds() {
    return this.hls.audioTracks.map((each) => ({ language: each.lang ?? "", label: each.name, channels: Number(each.channels) }));
  }
  sound(number) { this.hls.audioTrack = number; }
  texts() {
    return this.hls.subtitleTracks.map((each) => ({ language: each.lang ?? "", label: each.name, forced: each.forced }));
  }
  text(number) { this.hls.subtitleTrack = number; this.hls.subtitleDisplay = true; }
}

class Shaka {
  async open(url, complain, inTurn) {
    shaka.polyfill.installAll();
    this.player = new shaka.Player();
    await this.player.attach(video);
    this.player.configure({ streaming: { bufferingGoal: 60, bufferBehind: 60 } });
    this.player.addEventListener("error", ({ detail }) => complain(`${detail.code} ${detail.message}`));
    this.player.addEventListener("stalldetected", () => complain("stalldetected"));
    // It puts everything 1 ms later, and jumps there from zero.
    this.player.addEventListener("gapjumped", () => video.currentTime < 0.01 || complain(`gapjumped at ${video.currentTime} s`));
    if (inTurn) {
      this.player.configure({ abr: { enabled: false } });
      this.player.addEventListener("segmentappended", ({ contentType }) => {
        if (contentType === "video") this.player.selectVideoTrack(this.player.getVideoTracks()[turn(this.levels())], false);
      });
    }
    await this.player.load(url);
  }
  levels() {
    return this.player.getVideoTracks().map((each) => ({ height: each.height, width: each.width, codec: each.codecs, range: each.hdr }));
  }
  level(number) {
    this.player.configure({ abr: { enabled: false } });
    this.player.selectVideoTrack(this.player.getVideoTracks()[number], true);
  }
  playing() { return this.player.getVideoTracks().findIndex((each) => each.active); }
  sounds() {
    return this.player.getAudioTracks().map((each) => ({ language: each.language, label: each.label, channels: each.channelsCount, roles: each.roles }));
  }
  sound(number) { this.player.selectAudioTrack(this.player.getAudioTracks()[number]); }
  texts() {
    return this.player.getTextTracks().map((each) => ({ language: each.language, label: each.label, forced: each.forced }));
  }
  text(number) { this.player.selectTextTrack(this.player.getTextTracks()[number]); }
}

class DashJs {
  async open(url, complain, inTurn) {
    this.player = dashjs.MediaPlayer().create();
    this.player.updateSettings({
      debug: { logLevel: dashjs.Debug.LOG_LEVEL_NONE },
      streaming: {
        buffer: { bufferTimeDefault: 60, bufferTimeAtTopQuality: 60, bufferToKeep: 60, initialBufferLevel: 0 },
        abr: { autoSwitchBitrate: { video: false, audio: false } },
        text: { defaultEnabled: false },
      },
    });
    const { ERROR, FRAGMENT_LOADING_COMPLETED, STREAM_INITIALIZED } = dashjs.MediaPlayer.events;
    this.player.on(ERROR, ({ error }) => complain(`${error.code} ${error.message}`));
    if (inTurn) {
      let wanted;
      this.player.on(FRAGMENT_LOADING_COMPLETED, ({ request }) => {
        if (request.mediaType !== "video" || request.type !== "MediaSegment" || (wanted && wanted !== request.representation.id)) return;
        // After a change behind the last segment it may wait at the end for ever.
        if (request.startTime + request.duration > video.duration - 0.1) return;
        wanted = this.player.getRepresentationsByType("video")[turn(this.levels())].id;
        this.player.setRepresentationForTypeById("video", wanted, false);
      });
    }
    const ready = new Promise((resolve) => this.player.on(STREAM_INITIALIZED, resolve));
    this.player.initialize(video, url, false);
    await ready;
  }
  /** Of all codecs that can be decoded; it plays one of them. */
  sets() { return this.player.getTracksFor("video"); }
  levels() {
    return this.sets().flatMap((set) => set.bitrateList.map((each) => ({ height: each.height, width: each.width, codec: set.codec.match(/codecs="([^"]+)/)?.[1] ?? set.codec, set: set.id, bandwidth: each.bandwidth })));
  }
  level(number) {
    const wanted = this.levels()[number];
    const set = this.sets().find((each) => each.id === wanted.set);
    if (this.player.getCurrentTrackFor("video")?.id !== set.id) this.player.setCurrentTrack(set);
    const choose = () => this.player.getRepresentationsByType("video").find((each) => each.bandwidth === wanted.bandwidth);
    until(choose, "a quality").then((found) => this.player.setRepresentationForTypeById("video", found.id, true));
  }
  playing() {
    const now = this.player.getCurrentRepresentationForType("video");
    return this.levels().findIndex((each) => each.bandwidth === now?.bandwidth && each.height === now?.height);
  }
  sounds() {
    return this.player.getTracksFor("audio").map((each) => ({ language: each.lang ?? "", label: each.labels[0]?.text ?? "", channels: Number(each.audioChannelConfiguration[0]?.value) }));
  }
  sound(number) { this.player.setCurrentTrack(this.player.getTracksFor("audio")[number]); }
  texts() {
    return this.player.getTracksFor("text").map((each) => ({ language: each.lang ?? "", label: each.labels[0]?.text ?? "", forced: each.roles.some((role) => role.value === "forced-subtitle") }));
  }
  text(number) {
    this.player.setTextTrack(number);
    // It loads what is chosen while it plays.
    video.loop = true;
    video.play();
  }
}

class Chromium {
  async open(url) {
    video.src = url;
    video.load();
    await until(() => video.readyState >= HTMLMediaElement.HAVE_METADATA, "metadata");
  }
  levels() { return []; }
  sounds() { return []; }
  texts() { return []; }
}

const PLAYERS = { "hls.js": HlsJs, shaka: Shaka, "dash.js": DashJs, "shaka-mpd": Shaka, chromium: Chromium, file: Chromium };
const seen = { errors: [], pictures: [], heights: [], turns: 0, ended: false };
const canvas = new OffscreenCanvas(BITS * 8, 8).getContext("2d", { willReadFrequently: true });
let player, analyser;

/** The largest level and another one, in turn. */
function turn(levels) {
  const largest = levels.findIndex((each) => each.height === Math.max(...levels.map((other) => other.height)));
  const others = levels.keys().filter((at) => at !== largest).toArray();
  seen.turns++;
  return seen.turns % 2 ? largest : others[(seen.turns / 2) % others.length];
}

/** Wait until a condition holds; what it answers. */
async function until(condition, what) {
  const began = performance.now();
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() - began > LIMIT_MS) throw new Error(`not within ${LIMIT_MS} ms: ${what.call ? what() : what}; ${JSON.stringify(state())}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function buffered() {
  return [...Array(video.buffered.length).keys()].map((at) => [video.buffered.start(at), video.buffered.end(at)]);
}

function state() {
  return {
    ...seen, pictures: seen.pictures.length, at: video.currentTime, duration: video.duration, buffered: buffered(), ready: video.readyState,
    size: [video.videoWidth, video.videoHeight], mediaError: video.error?.message ?? null,
  };
}

/** The number that the picture on the screen shows; null without one. */
function number() {
  if (!video.videoWidth) return null;
  canvas.drawImage(video, 0, 0, BITS * 8, 8);
  const row = canvas.getImageData(0, 4, BITS * 8, 1).data;
  return [...Array(BITS).keys()].reduce((sum, bit) => sum + (row[(bit * 8 + 4) * 4] > 125 ? 2 ** bit : 0), 0);
}

function record(_, metadata) {
  seen.pictures.push([metadata.mediaTime, number()]);
  if (seen.heights.at(-1) !== metadata.height) seen.heights.push(metadata.height);
  video.requestVideoFrameCallback(record);
}

const studio = {
  state,
  async open(name, url, inTurn = false) {
    // A slow machine waits for its decoder now and then; only a wait that lasts is a stall.
    video.addEventListener("waiting", () => {
      const at = video.currentTime;
      setTimeout(() => video.paused || video.ended || video.currentTime !== at || seen.errors.push(`stalled at ${at} s`), STALL_MS);
    });
    video.addEventListener("error", () => seen.errors.push(`media: ${video.error.message}`));
    video.addEventListener("ended", () => (seen.ended = true));
    video.addEventListener("seeking", () => (seen.ended = false));
    video.requestVideoFrameCallback(record);
    player = new PLAYERS[name]();
    await player.open(url, (what) => seen.errors.push(what), inTurn);
    await until(() => video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA, "the first picture");
    return { levels: player.levels(), sounds: player.sounds(), texts: player.texts(), ...state() };
  },
  /** Wait until all is loaded. */
  async loaded() {
    await until(() => buffered().some(([, end]) => end >= video.duration - 0.1), "everything is loaded");
    return buffered();
  },
  async play(rate) {
    seen.pictures.length = seen.heights.length = 0;
    video.playbackRate = rate;
    await video.play();
  },
  /** Play for some seconds of the video. */
  async playFor(seconds) {
    const end = Math.min(video.currentTime + seconds, video.duration);
    await studio.play(1);
    await until(() => video.currentTime >= end || seen.ended, `${end} s are played`);
    video.pause();
  },
  async playToEnd(rate) {
    await studio.play(rate);
    await until(() => seen.ended, "the end");
    return { ...state(), pictures: seen.pictures };
  },
  /** Seek and wait until the picture of that time is shown. */
  async seek(seconds, picture) {
    video.currentTime = seconds;
    await until(() => !video.seeking && number() === picture, () => `picture ${picture} at ${seconds} s instead of ${number()}`);
    return video.currentTime;
  },
  /** Select a quality and wait until it shows the picture of that time. */
  async level(at, height, seconds, picture) {
    video.currentTime = seconds;
    player.level(at);
    await until(() => player.playing() === at, `level ${at}`);
    await studio.loaded();
    // What is paused keeps the picture of the level before.
    video.loop = true;
    await studio.play(1);
    await until(() => Math.min(video.videoWidth, video.videoHeight) === height, `level ${at} of ${height}`);
    video.pause();
    video.loop = false;
    await studio.seek(seconds, picture);
  },
  /** Select a sound track, play from a time and wait until its tone is heard. */
  async sound(at, seconds, hertz) {
    video.pause();
    video.loop = true;
    if (at !== null) player.sound(at);
    video.currentTime = seconds;
    if (at !== null) await studio.loaded();
    await studio.heard(hertz);
  },
  /** Play until a tone is heard, and pause there; the time. */
  async heard(hertz) {
    if (!analyser) {
      const context = new AudioContext();
      analyser = new AnalyserNode(context, { fftSize: 8192 });
      context.createMediaElementSource(video).connect(analyser).connect(context.destination);
    }
    await studio.play(1);
    const powers = new Float32Array(analyser.frequencyBinCount);
    await until(() => {
      analyser.getFloatFrequencyData(powers);
      const heard = (powers.indexOf(Math.max(...powers)) * analyser.context.sampleRate) / analyser.fftSize;
      return Math.max(...powers) > -60 && Math.abs(heard - hertz) < 15;
    }, `a tone of ${hertz} Hz`);
    video.pause();
    return video.currentTime;
  },
  /** The cues of a WebVTT file beside the qualities. */
  async cuesOf(url) {
    const track = Object.assign(document.createElement("track"), { kind: "chapters", src: url });
    video.append(track);
    track.track.mode = "hidden";
    await until(() => track.readyState === HTMLTrackElement.LOADED, url);
    return [...track.track.cues].map((each) => [each.startTime, each.endTime, each.text]);
  },
  /** Select subtitles and wait until they are all there; from, to and words of each. */
  async text(at, words) {
    player.text(at);
    let shown;
    await until(() => {
      const cues = [...video.textTracks].filter((each) => each.mode === "showing").flatMap((each) => [...(each.cues ?? [])]);
      shown = cues.map((each) => [each.startTime, each.endTime, each.text]);
      return cues.map((each) => each.text).join() === words.join();
    }, () => `the words ${words} instead of ${shown}`);
    return shown;
  },
};
