// Uploads one file as a browser's page would, and prints where it went.
import fs from "node:fs";
import * as tus from "tus-js-client";

const { file, endpoint, token, pace = 0, store, ...options } = JSON.parse(process.argv[2]);

const waiting = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
let mediaId = null;

const upload = new tus.Upload(fs.createReadStream(file), {
  endpoint,
  headers: { Authorization: `Bearer ${token}` },
  metadata: { filename: "film.webm", filetype: "video/webm" },
  ...(store ? { urlStorage: new tus.FileUrlStorage(store) } : {}),
  retryDelays: [0, 100, 500],
  onBeforeRequest: () => waiting(pace),
  onAfterResponse: (request, response) => {
    mediaId = response.getHeader("Rushes-Media-Id") ?? mediaId;
  },
  onError: (error) => {
    console.error(error.message);
    process.exit(1);
  },
  onSuccess: () => {
    console.log(JSON.stringify({ url: upload.url, mediaId }));
    process.exit(0);
  },
  ...options,
});

if (store) {
  const [previous] = await upload.findPreviousUploads();
  if (previous) {
    upload.resumeFromPreviousUpload(previous);
  }
}
upload.start();
