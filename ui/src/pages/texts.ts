/** The words of signing in and of the first visit. */
import { translatable } from "../lib/language";
import { t as shared } from "../lib/texts";

const signIn = {
  title: "Sign in",
  goOn: "Sign in to continue where you left off.",
  name: "Name",
  password: "Password",
  submit: "Sign in",
  wrong: "Wrong name or password.",
  missing: "Enter your name and password.",
  usedLink: "This link no longer works",
  usedLinkText: "A sign-in link works once, within a day. Sign in with your password, or get a new link.",
  byLink: "This link signs you in once.",
  already: "You are already signed in, so the link was not used.",
  noPassword: "No password, or forgotten it?",
  linkText: "Rushes prints a sign-in link when it first starts. To get a new one, run this on the server:",
  command: "rushes users link NAME",
  commandLabel: "Command that creates a new link",
  linkHint: "NAME is your user name; the first user is called admin. You can also ask an admin for a link. Then set a new password.",
};

const welcome = {
  title: "Welcome",
  hello: (name: string) => `Welcome, ${name}`,
  step: (at: number, of: number) => `${at} of ${of}`,
  passwordTitle: "Choose a password",
  passwordText: "Without a password you need a fresh link each time. With one you can sign in whenever you like.",
  set: "Set password",
  skip: "Skip for now",
  readyTitle: "Add your first recording",
  readyText: "Drop a video or audio file here, or choose one. Then:",
  lines: [
    { title: "Watch it in seconds", text: "It plays while the other qualities are still being encoded." },
    { title: "Read what was said", text: "Captions and a transcript are made automatically, on this server." },
    { title: "Find every word", text: "Search takes you to the second it was said." },
  ],
  choose: "Choose a file",
  toLibrary: "Go to the library",
};

export const t = { ...shared, ...translatable({ signIn, welcome }) };
