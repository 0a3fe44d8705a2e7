"""Checks of the backlog: tools, resources, prompts, completion and subscriptions. Each check relies
on the data of the previous ones in CHECKS."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_types import PromptReference, ResourceTemplateReference

from clients import LEGACY
from expect import expect, expect_match, expect_tool_error, refused

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
NOT_FOUND = -32002

COLLECTIONS = [
    f"requirements://{name}"
    for name in (
        "epics", "user-stories", "requirements", "requirements-types", "relationship-types"
    )
]
TEMPLATES = [
    "epic://{reference}",
    "epic://{reference}/hierarchy",
    "epic://{reference}/user-stories",
    "user-story://{reference}",
    "user-story://{reference}/requirements",
    "user-story://{reference}/acceptance-criteria",
    "requirement://{reference}",
    "requirement://{reference}/relationships",
    "acceptance-criteria://{reference}",
]
PROMPTS = {
    "analyze_requirement_quality": {"requirement": "REQ-001"},
    "decompose_epic": {"epic": "EP-001"},
    "generate_user_story": {"epic": "EP-001", "idea": "log in with a key"},
    "suggest_acceptance_criteria": {"user_story": "US-001"},
    "suggest_test_scenarios": {"requirement": "REQ-002"},
}
EPIC = "epic://EP-001"


async def data(session: Any, name: str, **arguments: Any) -> dict[str, Any]:
    result = await session.connection.call_tool(name, arguments)
    expect(f"{name}: isError", result.is_error, False)
    return result.structured_content


async def creation(session: Any) -> None:
    requirement = {"user_story": "US-001", "priority": 1, "type": "Functional"}
    for name, arguments, reference in [
        ("create_epic", {"title": "Accounts", "priority": 1, "tags": ["login"]}, "EP-001"),
        ("create_user_story", {"epic": "EP-1", "title": "Log in", "priority": 2}, "US-001"),
        ("create_requirement", requirement | {"title": "Lock after five failures"}, "REQ-001"),
        ("create_requirement", requirement | {"title": "Größe ≤ 3 µm 🦀"}, "REQ-002"),
        ("create_acceptance_criteria", {"user_story": "US-1", "description": "Done."}, "AC-001"),
    ]:
        made = await data(session, name, **arguments)
        expect("reference", made["reference_id"], reference)
        expect_match("version", made["version"], r"^[0-9a-f]{16}$")
    link = {"source": "REQ-002", "target": "REQ-001", "type": "depends_on"}
    expect("source", (await data(session, "create_relationship", **link))["reference_id"], "REQ-002")


async def reading(session: Any) -> None:
    epics = await data(session, "list_epics")
    expect("epics", [epic["reference_id"] for epic in epics["epics"]], ["EP-001"])
    tree = await data(session, "epic_hierarchy", epic="EP-001")
    expect("stories", [story["reference_id"] for story in tree["user_stories"]], ["US-001"])
    item = await data(session, "get_item", reference="REQ-002")
    links = item["relationships"]["outgoing"]
    expect("links", [link["reference_id"] for link in links], ["REQ-001"])
    await session.set("rules", "1", "As REQ-002 says.")
    decision = {"kind": "decision", "title": "Why", "links": {"affects": ["REQ-002", "rules:1"]}}
    made = await data(session, "ixchel_create", **decision)
    links = (await data(session, "get_item", reference="req-2"))["links"]
    expect("incoming", [link["id"] for link in links["incoming"]], [made["id"], "rules:1"])
    for reference, kind in [
        (made["id"], "decision"), ("rules", "section"), ("rules:1", "section_requirement")
    ]:
        found = await data(session, "get_item", reference=reference)
        expect("item", [found["item"]["id"], found["item"]["kind"]], [reference, kind])
    of_story = await data(session, "get_user_story_requirements", user_story="US-001")
    expect("requirements", len(of_story["requirements"]), 2)


async def searching(session: Any) -> None:
    found = await data(session, "search_global", query="lock after failures")
    expect("first hit", found["results"][0]["reference_id"], "REQ-001")
    first = await data(session, "search_requirements", epic="EP-001", limit=1)
    expect("total", first["total"], 2)
    cursor = first["next_cursor"]
    second = await data(session, "search_requirements", epic="EP-001", limit=1, cursor=cursor)
    pages = first["results"] + second["results"]
    expect("both pages", {hit["reference_id"] for hit in pages}, {"REQ-001", "REQ-002"})


async def changing(session: Any) -> None:
    version = (await data(session, "get_item", reference="EP-001"))["item"]["version"]
    for name, item in [
        ("update_epic", {"epic": "EP-001", "if_version": version}),
        ("update_user_story", {"user_story": "US-001"}),
        ("update_requirement", {"requirement": "REQ-001"}),
        ("update_acceptance_criteria", {"acceptance_criteria": "AC-001"}),
    ]:
        changed = await data(session, name, **item, description="As it was meant.")
        expect(name, changed["description"], "As it was meant.")
    stale = {"epic": "EP-001", "title": "Late", "if_version": version}
    result = await session.connection.call_tool("update_epic", stale)
    expect_tool_error(result, "Conflict", "conflict", -32012, "if_version")


async def lists(session: Any) -> None:
    listed = (await session.connection.ask("list_resources")).resources
    uris = [str(resource.uri) for resource in listed]
    items = [EPIC, "user-story://US-001", "requirement://REQ-001", "requirement://REQ-002"]
    expect("resources", sorted(uris), sorted([*COLLECTIONS, *items, "acceptance-criteria://AC-001"]))
    templates = (await session.connection.ask("list_resource_templates")).resource_templates
    expect("templates", [template.uri_template for template in templates], TEMPLATES)
    for thing in [*listed, *templates]:
        expect_match(f"{thing.name}: description", thing.description, r"\S")
        expect(f"{thing.name}: mimeType", thing.mime_type, "application/json")


async def reads(session: Any) -> None:
    numbers = {"epic": "EP-001", "user-story": "US-001", "requirement": "REQ-001"}
    numbers["acceptance-criteria"] = "AC-001"
    filled = [uri.replace("{reference}", numbers[uri.split(":")[0]]) for uri in TEMPLATES]
    for uri in COLLECTIONS + filled:
        (content,) = (await session.connection.ask("read_resource", uri)).contents
        expect("uri", str(content.uri), uri)
        expect(f"{uri}: mimeType", content.mime_type, "application/json")
        expect(f"{uri}: uri in the text", json.loads(content.text)["uri"], uri)


async def unknown_resource(session: Any) -> None:
    error = await refused(session.connection.ask("read_resource", "epic://EP-404"))
    old = session.contender.version == LEGACY
    expect("code", error.code, NOT_FOUND if old else INVALID_PARAMS)
    expect_match("message", error.message, "EP-404")


async def prompts(session: Any) -> None:
    listed = (await session.connection.ask("list_prompts")).prompts
    expect("prompts", [prompt.name for prompt in listed], sorted(PROMPTS))
    for prompt in listed:
        expect_match(f"{prompt.name}: description", prompt.description, r"\S")
        given = PROMPTS[prompt.name]
        expect(f"{prompt.name}: arguments", {arg.name for arg in prompt.arguments}, given.keys())
        answer = await session.connection.ask("get_prompt", prompt.name, given)
        (message,) = answer.messages
        expect(f"{prompt.name}: role", message.role, "user")
        expect_match(f"{prompt.name}: text", message.content.text, next(iter(given.values())))
    error = await refused(session.connection.ask("get_prompt", "decompose_epic", {}))
    expect("code", error.code, INVALID_PARAMS)
    expect_match("message", error.message, "epic")


async def completion(session: Any) -> None:
    template = ResourceTemplateReference(uri="requirement://{reference}")
    prompt = PromptReference(name="decompose_epic")
    for ref, name, value, wanted in [
        (template, "reference", "REQ-0", ["REQ-001", "REQ-002"]),
        (prompt, "epic", "acc", ["EP-001"]),
    ]:
        argument = {"name": name, "value": value}
        answer = (await session.connection.ask("complete", ref, argument)).completion
        expect(f"values for {value!r}", sorted(answer.values), wanted)
        expect("total", answer.total, len(wanted))


async def subscription(session: Any) -> None:
    if session.is_http and session.contender.version == LEGACY:
        # Notifications need a session, so the server does not offer subscriptions.
        error = await refused(session.connection.client.session.subscribe_resource(EPIC))
        expect("code", error.code, METHOD_NOT_FOUND)
        return
    async with session.connection.watching(EPIC) as news:
        await data(session, "update_epic", epic="EP-001", title="Identity")
        expect("news", {await news(), await news()}, {EPIC, "list"})
        # Replace the file atomically without the server, as git does.
        (file,) = (session.project / ".reqlore/backlog/epics").glob("EP-001-*.md")
        saved = session.project.parent / "saved.md"
        saved.write_text(file.read_text("utf-8") + "\nBy hand.\n", "utf-8")
        saved.replace(file)
        expect("news of an edit by hand", await news(), EPIC)
    (content,) = (await session.connection.ask("read_resource", EPIC)).contents
    expect_match("description", json.loads(content.text)["description"], "By hand")


async def deletion(session: Any) -> None:
    link = {"source": "REQ-002", "target": "REQ-001", "type": "depends_on"}
    await data(session, "delete_relationship", **link)
    gone = await data(session, "delete_item", reference="EP-001", cascade=True)
    expect("deleted", len(gone["deleted"]), 5)
    result = await session.connection.call_tool("get_item", {"reference": "EP-001"})
    expect("isError", result.is_error, True)
    expect_match("text", result.content[0].text, "deleted on")


CHECKS: list[tuple[str, Callable[[Any], Awaitable[None]]]] = [
    ("backlog tools create items and relationships", creation),
    ("backlog tools read items", reading),
    ("backlog tools find items, page by page", searching),
    ("backlog tools change items and refuse stale versions", changing),
    ("resources and templates are listed", lists),
    ("every resource can be read by its URI", reads),
    ("a missing resource is the error of the revision", unknown_resource),
    ("prompts are listed and fetched", prompts),
    ("references are completed", completion),
    ("subscribers are notified of changes by tools and editors", subscription),
    ("backlog tools delete items with their children", deletion),
]
