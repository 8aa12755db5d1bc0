/** The words of signing in and of the first visit. */
import { t as shared } from "../lib/texts";

const signIn = {
  title: "Sign in",
  goOn: "Sign in to go on where you were.",
  name: "Name",
  password: "Password",
  submit: "Sign in",
  wrong: "The name or the password is wrong.",
  missing: "Fill in your name and your password.",
  usedLink: "This link does not work any more",
  usedLinkText: "Each one signs in once, within a day. Sign in with your password, or get a new link.",
  byLink: "This link signs you in, once.",
  already: "You are signed in already: the link was not used.",
  noPassword: "No password, or forgotten it?",
  linkText: "Rushes prints a link that signs you in when it first starts. A new one is made on the server's command line:",
  command: "rushes users link NAME",
  commandLabel: "Command that makes a new link",
  linkHint: "NAME is yours; the first one is admin. Or ask an admin for a link. Then you can set a new password.",
};

const welcome = {
  title: "Welcome",
  hello: (name: string) => `Welcome, ${name}`,
  step: (at: number, of: number) => `${at} of ${of}`,
  passwordTitle: "Choose a password",
  passwordText: "Until you have one, only a fresh link signs you in. With a password you come back whenever you like.",
  set: "Set the password",
  skip: "Skip for now",
  readyTitle: "Drop your first recording",
  readyText: "Drop a video or a sound file here, or in the library. Then:",
  lines: [
    { title: "Watch it in seconds", text: "It plays while the other sizes are still being made." },
    { title: "Read what is said", text: "Captions and a transcript come by themselves, on this server." },
    { title: "Find every word", text: "Search goes to the second in which it was said." },
  ],
  toLibrary: "To the library",
};

export const t = { ...shared, signIn, welcome };
