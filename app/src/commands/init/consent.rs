//! Asks a person at a terminal, file by file.
//!
//! Questions go to stderr: stdout is for results, which may be piped away.

use std::io::BufRead;

/// What was said so far.
#[derive(Debug)]
pub(super) struct Consent<Input> {
    input: Input,
    /// For all that follow: yes or no.
    rest: Option<bool>,
    /// The last question and its answer: what is asked twice in a row is one thing to a person.
    last: Option<(String, bool)>,
}

impl<Input: BufRead> Consent<Input> {
    pub(super) fn new(input: Input) -> Self {
        Self { input, rest: None, last: None }
    }

    /// May this be written? Silence is no.
    pub(super) fn is_given(&mut self, what: &str) -> bool {
        if let Some(answer) = self.rest {
            return answer;
        }
        if let Some((last, answer)) = &self.last
            && last == what
        {
            return *answer;
        }
        let answer = self.ask(what);
        self.last = Some((what.to_owned(), answer));
        answer
    }

    fn ask(&mut self, what: &str) -> bool {
        loop {
            eprint!("Write {what}? [y/n/a/q] ");
            let mut line = String::new();
            let read = self.input.read_line(&mut line);
            match (read, line.trim().to_lowercase().as_str()) {
                (Ok(0) | Err(_), _) | (_, "q" | "quit") => {
                    self.rest = Some(false);
                    return false;
                }
                (_, "a" | "all") => {
                    self.rest = Some(true);
                    return true;
                }
                (_, "y" | "yes") => return true,
                (_, "n" | "no") => return false,
                _ => eprintln!("y: yes, n: not this one, a: all that follow, q: none that follow"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(said: &str) -> [bool; 4] {
        let mut consent = Consent::new(said.as_bytes());
        ["a", "b", "c", "d"].map(|what| consent.is_given(what))
    }

    #[test]
    fn each_answer_means_what_the_question_says() {
        assert_eq!(answers("y\nn\nYES\nNo\n"), [true, false, true, false]);
        assert_eq!(answers("n\na\n"), [false, true, true, true]);
        assert_eq!(answers("y\nq\ny\ny\n"), [true, false, false, false]);
        assert_eq!(answers("what\n\ny\nn\nn\nn\n"), [true, false, false, false]);
        assert_eq!(answers("y\n"), [true, false, false, false], "the end of the input is no");
    }

    #[test]
    fn what_is_one_thing_is_asked_once() {
        let mut consent = Consent::new("y\nn\n".as_bytes());
        assert!(consent.is_given(".ixchel/") && consent.is_given(".ixchel/"));
        assert!(!consent.is_given("AGENTS.md"));
    }
}
