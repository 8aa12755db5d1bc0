/** All of the pages in German. */
const folders = import.meta.glob<Record<string, object>>("./*/texts.de.ts", { eager: true, import: "de" });

export default Object.assign({}, ...Object.values(folders)) as Record<string, object>;
