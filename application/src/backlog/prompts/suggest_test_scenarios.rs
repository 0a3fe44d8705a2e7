//! `suggest_test_scenarios`: what to test of a requirement, limits and failures first of all.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::ports::service::PromptSpec;

use super::{OnePrompt, REQUIREMENT};

pub(super) const PROMPT: OnePrompt = OnePrompt {
    spec: PromptSpec {
        name: "suggest_test_scenarios",
        title: "Suggest test scenarios",
        description: "Proposes scenarios that would show a requirement unmet: main path, limits, \
                      failures, states, neighbours, each with data and expected result",
        arguments: &[REQUIREMENT],
    },
    kind: ItemKind::Requirement,
    description: "Test scenarios for requirement {reference}",
    task: TASK,
    answer: ANSWER,
};

const TASK: &str = "# Suggest test scenarios for requirement {reference}

You are a senior test engineer who reads requirements closely. Propose the smallest set of scenarios
that would catch an implementation which does not meet {reference}. A scenario that could only fail
together with another one is one too many.

## How to find them

Take the requirement apart first: trigger, state, actor, input, response, measure. Then ask of each
part what could be wrong with it.
- Main path: the response comes, completely, when the trigger and the state are there.
- Classes of input: one value for each group that should behave alike, valid and invalid.
- Boundaries: for every limit the value on it and its nearest neighbours on both sides; empty, one,
  many; the first and the last; the longest text; zero and negative; time zones, leap days and
  midnight where time matters.
- Negative: wrong, missing, repeated, malicious or unauthorized input. Say also what must *not*
  happen: nothing stored, nothing sent, nothing disclosed.
- States and order: the trigger in every other state, twice, too late, at the same moment from two
  sides.
- Failure: what it depends on is slow, full, absent or answers nonsense; it stops half-way and
  starts again.
- Quality: where the requirement has a number (time, load, size), a measurement with load, duration
  and pass mark.
- Neighbours: each `depends_on`, `blocks` and `conflicts_with` relationship is a place where two
  behaviours meet. The story's acceptance criteria say what the user counts as done.

Choose the level that gives the answer cheapest (unit, integration, system, by hand). For what a
test can't show, propose an inspection, an analysis or a demonstration.

## What makes a scenario good

- Given the state, when one thing happens, then results that anyone can see. One \"when\" each.
- Concrete data: \"a title of 501 characters\", not \"a long title\".
- An expected result exact enough that two people agree whether it came.
- Independent of the others and of the order in which they run.
- It follows from stored text. If the requirement does not say what should happen, that is a
  question and not a scenario with a guessed result.";

const ANSWER: &str = "## Your answer

Use these headings in this order, and nothing before the first.

### What is tested
The requirement in its parts, a line each; unclear parts are marked with the number of their
question.

### Scenarios
A table, the most valuable first, with the columns #, Title, Kind, Level, Given, When, Then and
Catches. Kind is main, class, boundary, negative, state, failure or quality. Catches names the
mistake that this scenario and no other would find. Have at least one boundary and one negative
scenario, or say why there can be none.

### Coverage
Each part of the requirement and each acceptance criterion of its story, with the numbers of the
scenarios that would fail if it were not met. Name those without any.

### Questions
Results that the stored text does not settle, and what depends on them. Ask instead of inventing a
limit, a message or a rule.

## Storing it

Show the answer first and store nothing before the user chooses. Then:
- A scenario that states what the user counts as done becomes a criterion: for each call
  `create_acceptance_criteria` with `user_story` (that of {reference}) and `description` (Given,
  When and Then on lines of their own; name {reference} in it, so that the two stay linked). Don't
  store what an existing criterion already says.
- An answer that the user gave to a question belongs into the requirement: `update_requirement` with
  `requirement` \"{reference}\", `description` (the whole new text) and `if_version` \"{version}\".
  On a conflict read it with `get_item`, show the difference and ask again.
- A need of its own that the tests uncovered: propose it, and after a yes call `create_requirement`
  with `user_story`, `title`, `description`, `type` and `priority`, then `create_relationship` with
  `source` (the new reference), `target` \"{reference}\" and `type` \"relates_to\".
Scenarios for test code alone are not stored; give them as text. Say at the end which references you
wrote.";
