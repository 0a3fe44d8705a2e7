//! `suggest_acceptance_criteria`: by what a user story counts as done.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::ports::service::PromptSpec;

use super::{OnePrompt, USER_STORY};

pub(super) const PROMPT: OnePrompt = OnePrompt {
    spec: PromptSpec {
        name: "suggest_acceptance_criteria",
        title: "Suggest acceptance criteria",
        description: "Proposes what a user story still lacks to be accepted: Given, When, Then \
                      for main path, limits and failures, traced to its requirements",
        arguments: &[USER_STORY],
    },
    kind: ItemKind::UserStory,
    description: "Acceptance criteria for user story {reference}",
    task: TASK,
    answer: ANSWER,
};

const TASK: &str = "# Suggest acceptance criteria for user story {reference}

You are a senior requirements engineer who prepares {reference} for a team. Find the criteria by
which the person named in the story, a developer and a tester would agree that it is done. Build on
the criteria that exist: keep what is right, mend what is not, add what is missing.

## What makes a criterion good

- It states one observable outcome for the user, as a condition and a result; the screen, the table
  and the algorithm are left open unless the story makes them a constraint.
- It can pass or fail, and nobody has to argue which. Replace \"fast\", \"friendly\" and
  \"correctly\" by what can be seen or measured, with unit and limit.
- It stands alone: data, role and starting state are in it.
- It belongs to this story. What serves another story is named as such and left there.
- It uses the project's words, as the epic, the requirements and the existing criteria use them.

The form is Given (state and role), When (one event), Then (results that can be seen; also what must
not have happened). For a rule without an event the shape \"While …, the system shall …\" is fine.

## Where to look

1. Main path: the \"so that\" of the story is reached.
2. Variants: other roles, other ways in, nothing there yet, very much there already.
3. Boundaries: each limit, on it and just beyond it; empty, one, many.
4. Negative: refused input, missing rights, an action out of order. What does the user learn, and
   what stays unchanged?
5. Failure: what the story relies on is slow or absent, two people act at once, the user stops
   half-way and returns.
6. Qualities that the story or a requirement promises: time, privacy, accessibility, traceability.
7. Each requirement of the story: does some criterion fail if it is not met? Each criterion: does
   some requirement or the story ask for it?

A handful of sharp criteria beats a long list: as a rule three to nine. If more are needed, the
story is probably too large; say so and where it could be cut.";

const ANSWER: &str = "## Your answer

Use these headings in this order, and nothing before the first.

### The story as understood
Who wants what, and why, in two sentences. If the story does not say, that is the first question.

### Existing criteria
A table with the columns Reference, Keep or change or drop, Why, and New words. Leave the section
out when there are none.

### New criteria
The most important first, numbered, each like this:

1. **Title of a few words** (main, variant, boundary, negative, failure or quality; for REQ-…)
   Given …
   When …
   Then …

Name the requirements that it checks; \"story\" where none says it.

### Coverage
A table with the columns Requirement, Criteria and Gap: every requirement of the story. Below it the
criteria that no requirement asks for.

### Questions
What the stored text leaves open and what depends on it. Ask instead of inventing limits, roles or
rules; a criterion that hangs on an answer says [TO BE DECIDED: question].

## Storing it

Show the answer first and store nothing before the user agrees. Then:
- For each agreed criterion call `create_acceptance_criteria` with `user_story` \"{reference}\" and
  `description`: the title on its first line, an empty line, then Given, When and Then on lines of
  their own, and the references that it checks. The first line is what lists show.
- For a changed one call `update_acceptance_criteria` with `acceptance_criteria` (its reference),
  `description` (the whole new text) and `if_version` (its `version` in the stored content).
- For a requirement that turned out to be missing: propose it as one sentence in the form \"When …,
  the system shall …\", and after a yes call `create_requirement` with `user_story`
  \"{reference}\", `title`, `description`, `type` (Functional, Non-Functional, Business Rule,
  Interface, Data) and `priority` (1 Critical to 4 Low).
- On a conflict somebody edited meanwhile: read the item with `get_item`, show the difference, ask
  again.
Don't store criteria that still have something to be decided, unless the user wants them so. Say at
the end which references you wrote.";
