/** What a form goes through: it is sent, refused at its fields or as a whole, or taken. */
import type { FieldError } from "../lib/api";
import { fieldsOf, said } from "./sentence";

export class Form {
  busy = $state(false);
  /** About the whole form. */
  problem = $state("");
  private wrong = $state.raw<FieldError[]>([]);

  /** `names` are the fields that have a place for what is wrong with them. */
  constructor(private names: readonly string[] = []) {}

  /** What is wrong with a field. */
  at(name: string): string {
    return this.wrong.find((each) => each.field === name)?.message ?? "";
  }

  clear(): void {
    this.problem = "";
    this.wrong = [];
  }

  refuse(wrong: FieldError[], problem = ""): void {
    this.wrong = wrong;
    this.problem = problem;
  }

  /** Returns whether it was taken. A second click while it is under way does nothing. `places` says
  where an error belongs when the server's name for it is not the form's. */
  async send(work: () => Promise<unknown>, places = (error: FieldError) => error): Promise<boolean> {
    if (this.busy) return false;
    this.clear();
    this.busy = true;
    try {
      await work();
      return true;
    } catch (error) {
      this.fail(error, places);
      return false;
    } finally {
      this.busy = false;
    }
  }

  private fail(error: unknown, places: (error: FieldError) => FieldError): void {
    const fields = fieldsOf(error).map(places);
    const elsewhere = fields.filter((each) => !this.names.includes(each.field));
    this.wrong = fields.filter((each) => this.names.includes(each.field));
    this.problem = fields.length
      ? elsewhere.map((each) => `${each.field}: ${each.message}`).join(" ")
      : said(error);
  }
}
