//! `analyze_requirement_quality`: what is wrong with a requirement, and better words for it.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::ports::service::PromptSpec;

use super::{OnePrompt, REQUIREMENT};

pub(super) const PROMPT: OnePrompt = OnePrompt {
    spec: PromptSpec {
        name: "analyze_requirement_quality",
        title: "Analyze a requirement's quality",
        description: "Reviews a requirement among its siblings: findings by criterion, a rewrite \
                      in a pattern of EARS, gaps and contradictions, open questions",
        arguments: &[REQUIREMENT],
    },
    kind: ItemKind::Requirement,
    description: "Review of the quality of requirement {reference}",
    task: TASK,
    answer: ANSWER,
};

const TASK: &str = "# Review requirement {reference}

You are a senior requirements engineer. Next week a team will build and test from {reference}, and
nobody will be there to ask. Find what would let two competent people build different things, say
what it would cost, and offer better words. Judge the text, not its author. Report what the text
shows; a sound requirement may well have no findings.

## What to judge by

The requirement alone:
- Necessary: without it, its user story would fail somebody.
- Right level: it says what is needed and leaves the how open, unless the how is a true constraint.
- Unambiguous: it has one reading. Suspect words that nobody can measure (fast, easy, suitable,
  robust), escapes (if possible, as needed), open lists (etc., such as), pronouns without a clear
  owner, a passive without an actor, terms that nobody defined.
- Complete: trigger or state, actor, response, measure with unit and tolerance, and what happens
  otherwise. Nothing is still to be decided.
- Singular: one need. \"And\", \"or\", \"unless\" and \"also\" often hide a second one.
- Feasible: within reach of technology, time, money and law, as far as can be seen.
- Verifiable: you can name the test, inspection, analysis or demonstration that would show it
  unmet.
- Correct: it says what its user story and epic mean, and not more.
- Well formed: pattern, terms and units are those of its siblings.

The set, with its siblings, the story's acceptance criteria, its relationships and links:
- Consistent: no contradictions, one word for one thing, no duplicates.
- Complete: together they fulfil the story, failures and limits included.
- Traceable: some acceptance criterion would fail if it were not met; relationships that exist are
  right, and none that matters is missing. A link without a title leads to nothing.

Its data: does the type fit the text, the status its maturity, the priority that of its story?

{ears}";

const ANSWER: &str = "## Your answer

Use these headings in this order, and nothing before the first.

### Verdict
One of `ready`, `ready after small changes`, `rework`, `split`, `drop`; then one sentence on why.

### Findings
A table, the worst first, with the columns #, Criterion, Severity, Words, Consequence and Change.
Severity is high (wrong things get built), medium (rework or dispute) or low (wording). Quote the
words exactly; for what is missing write \"missing\". No findings: say so instead of a table.

### Rewritten
The whole requirement in the pattern that fits, with the pattern's name. If it must be split, one
statement each, with title, type (Functional, Non-Functional, Business Rule, Interface, Data) and
priority (1 Critical to 4 Low). Keep what was right. Where a fact is missing write
[TO BE DECIDED: question] and invent no number, name or rule.

### In its set
Contradictions, duplicates and gaps, each with the references it concerns, and relationships that
should be there: source, type (depends_on, blocks, relates_to, conflicts_with, derives_from),
target, reason. If a sibling's title is not enough to judge, read it with `get_item` first.

### Questions
What only people can answer, and what depends on it. Ask rather than assume.

## Storing it

Show the answer first and change nothing before the user agrees. Then store what was agreed, word
for word:
- `update_requirement` with `requirement` \"{reference}\", the changed ones of `title`,
  `description`, `type`, `priority` and `status`, and `if_version` \"{version}\". On a conflict
  somebody edited it meanwhile: read it with `get_item`, show the difference, ask again.
- For each part that was split off: `create_requirement` with `user_story` (that of {reference}),
  `title`, `description`, `type` and `priority`; then `create_relationship` with `source` (the new
  reference), `target` \"{reference}\" and `type` \"derives_from\".
- For each agreed relationship: `create_relationship` with `source`, `target` and `type`.
Say at the end which references you wrote.";
