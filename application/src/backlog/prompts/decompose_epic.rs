//! `decompose_epic`: the user stories that an epic needs, and the order in which to build them.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::ports::service::PromptSpec;

use super::{EPIC, OnePrompt};

pub(super) const PROMPT: OnePrompt = OnePrompt {
    spec: PromptSpec {
        name: "decompose_epic",
        title: "Decompose an epic",
        description: "Divides an epic into user stories of a few days each that together fulfil \
                      it, in the order in which they bring value, around those that exist",
        arguments: &[EPIC],
    },
    kind: ItemKind::Epic,
    description: "User stories for epic {reference}",
    task: TASK,
    answer: ANSWER,
};

const TASK: &str = "# Decompose epic {reference} into user stories

You are a senior requirements engineer. Divide {reference} into user stories that together fulfil it
and of which each is worth having when the next is never built. Begin with what is there: stories
that exist stay unless there is a reason to change them.

## How to divide

First find the epic's goal, its users and the outcome by which one would know that it was reached.
Then walk through what the users do from beginning to end, and cut through all layers of the system:
a story reaches from what the user does to what the user gets. \"Database\", \"interface\" and
\"tests\" are no stories.

Cuts that work, roughly in this order:
- Steps of the workflow: the thinnest path from beginning to end first, then the steps that make it
  rich.
- Rules: the common case first, each special rule on its own.
- Roles: who needs it most, then the others.
- Data: one kind or one source first, then the further ones.
- Ways in and out: one channel first, then the others.
- Failure and recovery: what must be safe from the first day stays with its story; comfort comes
  later.
- Quality: it works, then it works for the load, the speed or the audience that the epic promises.
- What is unknown: a short investigation with a question and an end, when nobody could estimate the
  story otherwise.

## What to judge by

Each story: independent as far as possible, negotiable, valuable to a named kind of user, estimable,
small (a few days for a team, one main path), testable.

All together:
- Complete: each promise of the epic is in some story, and with it administration, errors, access
  rights, migration and operation where the epic needs them.
- Without overlap: no two stories deliver the same.
- Level: none is an epic itself, none a mere task.
- In order: value and risk early, dependencies few and one way only. The first story gives something
  to show.
- In line with what linked decisions of the knowledge graph have settled.
- True to the text: nothing that the epic does not ask for. Wishes of your own are suggestions, and
  marked so.";

const ANSWER: &str = "## Your answer

Use these headings in this order, and nothing before the first.

### Goal
Users, outcome, and what is out of scope, in at most five sentences.

### Existing stories
A table with the columns Reference, Keep or change or split or drop, and Why. Leave the section out
when there are none.

### Stories
A table in the order of building, with the columns #, Title, Story (As a … I want … so that …),
Priority (1 Critical, 2 High, 3 Medium, 4 Low), Cut by, and Comes after (references, or numbers of
this table). Existing stories stand in it by their reference. Three to twelve as a rule; if it takes
more, propose to divide the epic.

### Each new story
For each new row: what is in, what is out, two to four acceptance criteria in a line each (one of
them a limit or a failure), and the risk or unknown if there is one.

### Coverage
A table with the columns Promise (quoted from the epic) and Stories. A promise without a story is a
gap; a story without a promise goes out or becomes a question.

### First release
The fewest stories that give a user something of worth, and what they leave out.

### Questions
What the epic leaves open, what depends on it, and which story waits for it. Ask instead of
inventing users, numbers or rules; mark an assumption [ASSUMED: …]. If the goal or the users are
unknown, ask that first and divide no further.

## Storing it

Show the answer first and store nothing before the user has chosen. Then, in the order of building:
- For each agreed new story `create_user_story` with `epic` \"{reference}\", `title`, `description`
  (the sentence, then what is in and out, then the stories it comes after by reference) and
  `priority`.
- For each agreed criterion `create_acceptance_criteria` with `user_story` (the reference that the
  call before gave) and `description`.
- For a story that changes `update_user_story` with `user_story`, the changed ones of `title`,
  `description`, `priority` and `status`, and `if_version` (its `version` in the stored content). To
  drop one means `status` \"Cancelled\"; delete nothing.
- If the epic's own text needs mending, `update_epic` with `epic` \"{reference}\", `description` and
  `if_version` \"{version}\".
Requirements come later, story by story, with `create_requirement`. On a conflict read the item with
`get_item`, show the difference and ask again. If a call fails, say what is stored and what is not
before you go on, and never create the same story twice. Say at the end which references you
wrote.";
