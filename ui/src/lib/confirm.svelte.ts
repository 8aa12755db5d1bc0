/** Asks before something that cannot be taken back. */
export interface Question {
  title: string;
  text: string;
  yes: string;
  /** Where "Cancel" could be taken for the other answer. */
  no?: string;
  danger?: boolean;
  answer: (yes: boolean) => void;
}

class Questions {
  open = $state.raw<Question | null>(null);

  ask(question: Omit<Question, "answer">): Promise<boolean> {
    this.open?.answer(false);
    return new Promise((resolve) => {
      this.open = {
        ...question,
        answer: (yes) => {
          this.open = null;
          resolve(yes);
        },
      };
    });
  }
}

export const questions = new Questions();
export const confirm = (question: Omit<Question, "answer">): Promise<boolean> => questions.ask(question);
