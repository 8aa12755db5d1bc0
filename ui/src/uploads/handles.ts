/** Ways back to files after a reload, where the browser gives them (Chromium, over https or on the same
machine): kept in its database until their upload is over. */
type Permission = "granted" | "denied" | "prompt";

/** Not all of it is known to every browser. */
export interface Handle {
  kind: string;
  getFile(): Promise<File>;
  queryPermission?(wanted: { mode: "read" }): Promise<Permission>;
  requestPermission?(wanted: { mode: "read" }): Promise<Permission>;
}

const [DATABASE, STORE] = ["rushes.uploads", "handles"];

function opened(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(DATABASE, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

async function within<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
  try {
    const database = await opened();
    try {
      return await new Promise<T>((resolve, reject) => {
        const asked = work(database.transaction(STORE, mode).objectStore(STORE));
        asked.onsuccess = () => resolve(asked.result);
        asked.onerror = () => reject(asked.error);
      });
    } finally {
      database.close();
    }
  } catch {
    // Without it the file has to be given again.
    return undefined;
  }
}

export const remember = (mark: string, handle: Handle) => within("readwrite", (store) => store.put(handle, mark));
export const forget = (mark: string) => within("readwrite", (store) => store.delete(mark));
export const recall = (mark: string): Promise<Handle | undefined> => within("readonly", (store) => store.get(mark));

/** Whether the file may be read without asking anybody. */
export async function isOpen(handle: Handle): Promise<boolean> {
  return (await handle.queryPermission?.({ mode: "read" }).catch(() => "prompt")) === "granted";
}

/** The file, after a question to its owner if need be; nothing when the answer is no. */
export async function reopened(handle: Handle): Promise<File | undefined> {
  const allowed = (await handle.requestPermission?.({ mode: "read" })) ?? "granted";
  return allowed === "granted" ? handle.getFile() : undefined;
}

type Picker = (wanted: { multiple: boolean }) => Promise<Handle[]>;

/** The browser's own choice of files, where it gives ways back to them. */
export function picker(): Picker | undefined {
  const found = (globalThis as { showOpenFilePicker?: Picker }).showOpenFilePicker;
  return found && ((wanted) => found.call(globalThis, wanted));
}
