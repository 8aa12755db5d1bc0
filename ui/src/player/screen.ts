/** Filling the screen and floating above other windows. What is not allowed changes nothing. */
import type { Cue } from "./vtt";

type OldSafari = HTMLVideoElement & { webkitEnterFullscreen?: () => void };

export async function toggleFullscreen(box: HTMLElement, video: HTMLVideoElement): Promise<void> {
  try {
    if (document.fullscreenElement) await document.exitFullscreen();
    else if (box.requestFullscreen) await box.requestFullscreen();
    // Phones that let nothing but a video fill the screen.
    else (video as OldSafari).webkitEnterFullscreen?.();
  } catch {
    // Somebody said no.
  }
}

export function canFloat(video: HTMLVideoElement): boolean {
  return "requestPictureInPicture" in video && document.pictureInPictureEnabled;
}

export async function toggleFloating(video: HTMLVideoElement): Promise<void> {
  try {
    if (document.pictureInPictureElement) await document.exitPictureInPicture();
    else await video.requestPictureInPicture();
  } catch {
    // Not before there is a picture.
  }
}

/** For the keys of the keyboard and the lock screen of a phone. Returns how to stop it. */
export function showOnSystem(title: string, poster: string | null, calls: { skip: (by: number) => void; seek: (to: number) => void }): () => void {
  const session = navigator.mediaSession;
  if (!session || typeof MediaMetadata === "undefined") return () => {};
  session.metadata = new MediaMetadata({ title, artwork: poster ? [{ src: poster }] : [] });
  const handlers: [MediaSessionAction, MediaSessionActionHandler][] = [
    ["seekbackward", ({ seekOffset }) => calls.skip(-(seekOffset ?? 10))],
    ["seekforward", ({ seekOffset }) => calls.skip(seekOffset ?? 10)],
    ["seekto", ({ seekTime }) => calls.seek(seekTime ?? 0)],
  ];
  const set = (action: MediaSessionAction, handler: MediaSessionActionHandler | null) => {
    try {
      session.setActionHandler(action, handler);
    } catch {
      // A browser without this one.
    }
  };
  handlers.forEach(([action, handler]) => set(action, handler));
  return () => {
    session.metadata = null;
    handlers.forEach(([action]) => set(action, null));
  };
}

const TRACK = "captions";

/** Phones that fill the screen with the bare video draw captions themselves; without cues, none. */
export function drawNatively(video: HTMLVideoElement, cues: Cue[]): void {
  const tracks = [...video.textTracks];
  const track = tracks.find((each) => each.label === TRACK) ?? (cues.length ? video.addTextTrack("captions", TRACK) : undefined);
  if (!track) return;
  track.mode = cues.length ? "showing" : "hidden";
  [...(track.cues ?? [])].forEach((each) => track.removeCue(each));
  for (const { start, end, text } of cues) track.addCue(new VTTCue(start, end, text.replace(/&/g, "&amp;").replace(/</g, "&lt;")));
}
