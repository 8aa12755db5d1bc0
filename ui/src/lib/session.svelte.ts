/** Who is signed in. */
import { api, ok, Problem, whenSignedOut, type Me } from "./api";
import { kinds } from "./kinds.svelte";
import { live } from "./live.svelte";
import { router } from "./router.svelte";

class SessionState {
  me = $state.raw<Me | null>(null);
  /** False until we know whether somebody is signed in. */
  known = $state(false);
  /** The server could not be asked. */
  problem = $state("");

  get isAdmin(): boolean {
    return this.me?.role === "admin";
  }

  async load(): Promise<void> {
    this.problem = "";
    try {
      const [me] = await Promise.all([ok(api.GET("/api/v1/session")), kinds.load()]);
      await this.entered(me);
    } catch (error) {
      if (error instanceof Problem && error.status === 401) this.known = true;
      else this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  /** Pages are shown as soon as there is a `me`, and rely on the kinds of jobs. */
  async entered(me: Me): Promise<void> {
    await kinds.load();
    this.me = me;
    this.known = true;
    live.start(me.event_position);
  }

  async signOut(): Promise<void> {
    await ok(api.DELETE("/api/v1/session"));
    this.left();
    router.go("/sign-in");
  }

  left(): void {
    this.me = null;
    this.known = true;
    live.stop();
  }
}

export const session = new SessionState();

whenSignedOut(() => {
  if (session.me) session.left();
});
