//! `generate_user_story`: the next story of an epic, from an idea or from what the epic lacks.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::ports::service::{ArgumentSpec, PromptSpec};

use super::{EPIC, IDEA, OnePrompt};

pub(super) const PROMPT: OnePrompt = OnePrompt {
    spec: PromptSpec {
        name: "generate_user_story",
        title: "Generate a user story",
        description: "Writes one user story for an epic, from an idea or from what the epic still \
                      lacks, with acceptance criteria and first requirements",
        arguments: &[
            EPIC,
            ArgumentSpec {
                name: IDEA,
                title: "Idea",
                description: "What the story should be about, in a few words; without it, the \
                              epic's largest gap",
                required: false,
            },
        ],
    },
    kind: ItemKind::Epic,
    description: "A new user story for epic {reference}",
    task: TASK,
    answer: ANSWER,
};

const TASK: &str = "# Write one user story for epic {reference}

You are a senior requirements engineer. Write the one story that brings {reference} forward, so that
a team can discuss it, estimate it and finish it within a few days.

{idea}

## What makes a story good

- Independent: it can be built and released without waiting for another one. Where it can't, name
  the other one.
- Negotiable: it states the need and leaves the solution to the team.
- Valuable: a named kind of person gets something that they could not do, know or avoid before.
  \"As a developer\" or \"as the system\" mostly means that the true user was not found.
- Estimable: terms, data and limits are clear enough to judge the effort.
- Small: one goal and one main path. \"And\", \"manage\" or \"all\" in the title hint at several
  stories.
- Testable: somebody could show that it is not done.

It also has to fit:
- It serves the epic's goal. If the idea lies outside, say so and ask where it belongs.
- No existing story covers it. If one does in part, propose to change that one instead, by its
  reference. Where a title is not enough to tell, read the story with `get_item`.
- It uses the words of the epic and its stories for the same things.
- What decisions and other linked entries of the knowledge graph have settled stays settled; where
  the story would go against one, name it.

{ears}";

const ANSWER: &str = "## Your answer

Use these headings in this order, and nothing before the first.

### Story
- **Title**: a short phrase with a verb, from the user's side, under 80 characters
- **Description**: As a *role*, I want *ability*, so that *benefit*. Below it the context that a
  team needs, in at most two paragraphs, and what is out of scope.
- **Priority**: 1 Critical, 2 High, 3 Medium or 4 Low, with the reason
- **Why now**: what of the epic it delivers, in a sentence

### Acceptance criteria
Three to seven, each with a short title, then Given, When and Then on lines of their own: the main
path, at least one boundary and at least one refusal or failure.

### First requirements
Two to six statements in patterns of EARS, each with title, type (Functional, Non-Functional,
Business Rule, Interface, Data) and priority, and the criterion that checks it.

### Fit
A table with the columns Story, How it relates and What to do: each existing story that overlaps,
comes before or comes after. Below it, those of the six properties that the new story does not have
in full.

### Questions
What the epic and the idea leave open, and what depends on it. Ask instead of inventing users,
numbers or rules: an assumption is marked [ASSUMED: …], a gap [TO BE DECIDED: question]. If the role
or the benefit is unknown, ask before you write the rest.

## Storing it

Show the answer first and store nothing before the user agrees. Then, in this order:
1. `create_user_story` with `epic` \"{reference}\", `title`, `description` and `priority`. Its
   answer has the new reference, which the next calls need.
2. For each agreed criterion `create_acceptance_criteria` with `user_story` (the new reference) and
   `description` (the title on its first line).
3. For each agreed requirement `create_requirement` with `user_story` (the new reference), `title`,
   `description`, `type` and `priority`.
4. Where a new requirement hangs on an existing one, `create_relationship` with `source`, `target`
   and `type` (depends_on, blocks, relates_to, conflicts_with, derives_from).
If a call fails, say what is stored and what is not before you try again; a second
`create_user_story` would make a second story. Say at the end which references you wrote.";
