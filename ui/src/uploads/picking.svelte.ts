/** The ways in for files that any part of the pages can open; Uploads.svelte has the doors. */
class Picking {
  /** The dialog about what is done with new files is open. */
  options = $state(false);
  private open: { files: () => void; folder: () => void } | undefined;

  /** Returns how to take them away again. */
  offer(open: { files: () => void; folder: () => void }): () => void {
    this.open = open;
    return () => {
      if (this.open === open) this.open = undefined;
    };
  }

  files(): void {
    this.open?.files();
  }

  folder(): void {
    this.open?.folder();
  }
}

export const picking = new Picking();
