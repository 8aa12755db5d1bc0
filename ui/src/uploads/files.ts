/** Files out of whatever was dropped, pasted or chosen. */
import type { Handle } from "./handles";

const MEDIA =
  /\.(3g2|3gp|aac|ac3|aif|aiff|amr|ape|asf|avi|caf|dv|f4v|flac|flv|m2ts|m2v|m4a|m4b|m4v|mka|mkv|mov|mp2|mp3|mp4|mpeg|mpg|mts|mxf|oga|ogg|ogv|opus|ra|rm|rmvb|ts|vob|wav|webm|wma|wmv|wv)$/i;

export interface Given {
  files: File[];
  /** How many others lay in the folders. */
  leftOut: number;
  /** Ways back to some of them. */
  handles?: Map<File, Handle>;
  /** Where some of them lay: `Holidays/2020`, from the folder that was given. */
  folders?: Map<File, string>;
}

type Item = DataTransferItem & { getAsFileSystemHandle?: () => Promise<Handle | null> };

/** In a folder lies much that nobody means to upload. */
export function isMedia(file: { name: string; type: string }): boolean {
  if (file.name.startsWith(".")) return false;
  return /^(video|audio)\//.test(file.type) || MEDIA.test(file.name);
}

/** What was chosen one by one is taken as it is: the server says what it cannot use. */
export function chosen(files: File[]): Given {
  const inFolder = (file: File) => Boolean(file.webkitRelativePath);
  const kept = files.filter((file) => !inFolder(file) || isMedia(file));
  const folders = new Map(kept.filter(inFolder).map((file) => [file, folderOf(file.webkitRelativePath)]));
  return { files: kept, leftOut: files.length - kept.length, folders };
}

function folderOf(path: string): string {
  return path.split("/").slice(0, -1).filter(Boolean).join("/");
}

/** Has to be called before the event is over; the walk through the folders takes its time. */
export async function dropped(data: DataTransfer): Promise<Given> {
  const items = [...data.items].filter((item) => item.kind === "file");
  const entries = items.map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const ways = items.map((item) => (item as Item).getAsFileSystemHandle?.().catch(() => null));
  const handles = new Map<File, Handle>();
  const found: (FileSystemEntry | File)[] = [];
  for (const [at, entry] of entries.entries()) {
    const handle = await ways[at];
    if (handle?.kind === "file") found.push(await opened(handle, handles));
    else if (entry) found.push(entry);
  }
  return { ...(await gather(found)), handles };
}

async function opened(handle: Handle, handles: Map<File, Handle>): Promise<File> {
  const file = await handle.getFile();
  handles.set(file, handle);
  return file;
}

export async function picked(ways: Handle[]): Promise<Given> {
  const handles = new Map<File, Handle>();
  const files: File[] = [];
  for (const each of ways) files.push(await opened(each, handles));
  return { files, leftOut: 0, handles };
}

export async function gather(entries: (FileSystemEntry | File)[]): Promise<Given> {
  const files: File[] = [];
  const folders = new Map<File, string>();
  let leftOut = 0;
  for (const entry of entries) {
    if (entry instanceof File) files.push(entry);
    else if (entry.isFile) files.push(await fileOf(entry as FileSystemFileEntry));
    else {
      for (const [file, folder] of await within(entry as FileSystemDirectoryEntry)) {
        folders.set(file, folder);
        if (isMedia(file)) files.push(file);
        else leftOut += 1;
      }
    }
  }
  return { files, leftOut, folders };
}

async function within(folder: FileSystemDirectoryEntry, above = ""): Promise<[File, string][]> {
  const name = above ? `${above}/${folder.name}` : folder.name;
  const files: [File, string][] = [];
  const reader = folder.createReader();
  for (;;) {
    // Browsers answer a hundred at a time, and nothing when that was all.
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return files;
    for (const entry of some.sort((a, b) => a.name.localeCompare(b.name))) {
      if (entry.isDirectory) files.push(...(await within(entry as FileSystemDirectoryEntry, name)));
      else files.push([await fileOf(entry as FileSystemFileEntry), name]);
    }
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

/** Whether what is dragged over the page is files, and not a piece of the page itself. */
export function carriesFiles(data: DataTransfer | null): boolean {
  return Boolean(data?.types.includes("Files"));
}
