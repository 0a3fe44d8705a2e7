//! ReqIF documents and archives, also hostile ones.

use std::io::Cursor;

use reqlore_domain::ports::exchange::{
    ExchangeFormat as _, ImportMapping, ImportedItem, ImportedItems, SourceFile,
};
use reqlore_domain::records::answers::lists::ListedItem;
use serde_json::json;

use super::{archive, item, outline, read, recognized, try_read, written};
use crate::reqif::{ReqIf, read_files};

const START: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<REQ-IF xmlns=\"r\" \
    xmlns:x=\"h\"><THE-HEADER/><CORE-CONTENT><REQ-IF-CONTENT>";
const END: &str = "</REQ-IF-CONTENT></CORE-CONTENT></REQ-IF>";
const TYPES: &str = "<DATATYPES><DATATYPE-DEFINITION-ENUMERATION IDENTIFIER=\"e\">
    <SPECIFIED-VALUES><ENUM-VALUE IDENTIFIER=\"e1\" LONG-NAME=\"Open &amp; new\"/>
    <ENUM-VALUE IDENTIFIER=\"e2\" LONG-NAME=\"b\"/></SPECIFIED-VALUES>
    </DATATYPE-DEFINITION-ENUMERATION></DATATYPES><SPEC-TYPES>
    <SPEC-OBJECT-TYPE IDENTIFIER=\"t\" LONG-NAME=\"Thing\"><SPEC-ATTRIBUTES>
    <ATTRIBUTE-DEFINITION-STRING IDENTIFIER=\"chapter\" LONG-NAME=\"ReqIF.ChapterName\"/>
    <ATTRIBUTE-DEFINITION-XHTML IDENTIFIER=\"text\" LONG-NAME=\"ReqIF.Text\"/>
    <ATTRIBUTE-DEFINITION-STRING IDENTIFIER=\"id\" LONG-NAME=\"ReqIF.ForeignID\">
    <DEFAULT-VALUE><ATTRIBUTE-VALUE-STRING THE-VALUE=\"x\"/></DEFAULT-VALUE>
    </ATTRIBUTE-DEFINITION-STRING>
    <ATTRIBUTE-DEFINITION-ENUMERATION IDENTIFIER=\"status\" LONG-NAME=\"Status\"/>
    <ATTRIBUTE-DEFINITION-STRING IDENTIFIER=\"raw\" LONG-NAME=\"Raw Value\"/>
    </SPEC-ATTRIBUTES></SPEC-OBJECT-TYPE>
    <SPEC-RELATION-TYPE IDENTIFIER=\"r1\" LONG-NAME=\"Depends On\"/>
    <SPEC-RELATION-TYPE IDENTIFIER=\"r2\" LONG-NAME=\"verifies\"/></SPEC-TYPES>";

fn string(attribute: &str, value: &str) -> String {
    format!(
        "<ATTRIBUTE-VALUE-STRING THE-VALUE=\"{value}\"><DEFINITION>\
         <ATTRIBUTE-DEFINITION-STRING-REF>{attribute}</ATTRIBUTE-DEFINITION-STRING-REF>\
         </DEFINITION></ATTRIBUTE-VALUE-STRING>"
    )
}

fn xhtml(value: &str) -> String {
    format!(
        "<ATTRIBUTE-VALUE-XHTML><DEFINITION><ATTRIBUTE-DEFINITION-XHTML-REF>text\
         </ATTRIBUTE-DEFINITION-XHTML-REF></DEFINITION><THE-VALUE>{value}</THE-VALUE>\
         </ATTRIBUTE-VALUE-XHTML>"
    )
}

fn object(id: &str, values: &str) -> String {
    format!(
        "<SPEC-OBJECT IDENTIFIER=\"{id}\" LAST-CHANGE=\"x\"><VALUES>{values}</VALUES><TYPE>\
         <SPEC-OBJECT-TYPE-REF>t</SPEC-OBJECT-TYPE-REF></TYPE></SPEC-OBJECT>"
    )
}

fn place(id: &str, below: &str) -> String {
    format!(
        "<SPEC-HIERARCHY><OBJECT><SPEC-OBJECT-REF>{id}</SPEC-OBJECT-REF></OBJECT>\
         <CHILDREN>{below}</CHILDREN></SPEC-HIERARCHY>"
    )
}

fn relation(kind: &str, source: &str, target: &str) -> String {
    format!(
        "<SPEC-RELATION IDENTIFIER=\"{source}{kind}\"><TYPE><SPEC-RELATION-TYPE-REF>{kind}\
         </SPEC-RELATION-TYPE-REF></TYPE><SOURCE><SPEC-OBJECT-REF>{source}</SPEC-OBJECT-REF>\
         </SOURCE><TARGET><SPEC-OBJECT-REF>{target}</SPEC-OBJECT-REF></TARGET></SPEC-RELATION>"
    )
}

fn document(objects: &str, relations: &str, places: &str) -> String {
    format!(
        "{START}{TYPES}<SPEC-OBJECTS>{objects}</SPEC-OBJECTS><SPEC-RELATIONS>{relations}\
         </SPEC-RELATIONS><SPECIFICATIONS><SPECIFICATION IDENTIFIER=\"s\" LONG-NAME=\"Shop\">\
         <CHILDREN>{places}</CHILDREN></SPECIFICATION></SPECIFICATIONS>{END}"
    )
}

/// The items of a document with one object, whose text is given in XHTML.
fn markdown(xml: &str) -> String {
    let text = document(&object("a", &(string("chapter", "t") + &xhtml(xml))), "", "");
    read(&ReqIf, &[("a.reqif", &text)]).items.pop().unwrap().text
}

#[test]
fn specification_becomes_epic_with_stories_and_requirements() {
    let values = "<ATTRIBUTE-VALUE-ENUMERATION><VALUES><ENUM-VALUE-REF>e1</ENUM-VALUE-REF>\
        </VALUES><DEFINITION><ATTRIBUTE-DEFINITION-ENUMERATION-REF>status\
        </ATTRIBUTE-DEFINITION-ENUMERATION-REF></DEFINITION></ATTRIBUTE-VALUE-ENUMERATION>";
    let raw = string("raw", " a&#10;\t b &lt;") + values + &string("id", "X-7");
    let objects = [
        object("c", &string("chapter", "Login")),
        object("a", &(xhtml("<x:div>It <x:b>asks</x:b>.</x:div>") + &raw)),
        object("b", &xhtml("<x:p>Deep</x:p>")),
        object("free", &string("chapter", "Free")),
    ];
    let relations =
        relation("r1", "a", "b") + &relation("r2", "a", "free") + &relation("r1", "no", "b");
    let places = place("c", &place("a", &place("b", ""))) + &place("a", "") + &place("gone", "");
    let text = document(&objects.concat(), &relations, &places);
    let path = "in/shop.reqif";
    let mut expected: Vec<ImportedItem> = [
        ["epic", "s", "", "Shop", ""],
        ["user_story", "c", "s", "Login", ""],
        ["requirement", "a", "c", "It **asks**.", ""],
        ["requirement", "b", "c", "Deep", ""],
        ["requirement", "free", "", "Free", ""],
    ]
    .map(|one| item(path, one))
    .into();
    expected[2].id = Some("X-7".to_owned());
    expected[2].values.insert("Raw Value".to_owned(), json!(" a\n\t b <"));
    expected[2].values.insert("status".to_owned(), json!("Open & new"));
    expected[2].values.insert("ReqIF.ForeignID".to_owned(), json!("X-7"));
    expected[2].links.insert("depends_on".to_owned(), vec!["b".to_owned()]);
    expected[2].links.insert("verifies".to_owned(), vec!["free".to_owned()]);
    expected[3].values.insert("object_above".to_owned(), json!("a"));
    expected[4].parent = None;
    for item in &mut expected[1..] {
        item.values.insert("object_type".to_owned(), json!("Thing"));
    }
    let notes = [
        "ignored default values: 1",
        "ignored placements of missing objects: 1",
        "ignored relations without a source: 1",
        "ignored repeated placements: 1",
    ];
    let notes = notes.map(|note| format!("{path}: {note}")).into();
    let mut mapping = ImportMapping::default();
    let content = Box::new(Cursor::new(text.clone().into_bytes()));
    let files = vec![SourceFile { path: path.to_owned(), content }];
    let imported = ReqIf.read(files, &mut mapping).unwrap();
    assert_eq!(imported, ImportedItems { items: expected, notes });
    assert_eq!(mapping.columns["Raw Value"], "Raw Value");
    assert_eq!(mapping.columns["ReqIF.Text"], "text");
    mapping.columns.insert("Raw Value".to_owned(), String::new());
    mapping.columns.insert("ReqIF.ForeignID".to_owned(), "team".to_owned());
    let files = vec![SourceFile {
        path: path.to_owned(),
        content: Box::new(Cursor::new(text.into_bytes())),
    }];
    let mapped = ReqIf.read(files, &mut mapping).unwrap().items.swap_remove(2);
    assert_eq!((mapped.values.get("Raw Value"), &mapped.values["team"]), (None, &json!("X-7")));
}

#[test]
fn xhtml_becomes_markdown() {
    for (xml, expected) in [
        ("<x:div>a\n   b</x:div>", "a b"),
        ("<x:p>a</x:p> <x:p>b<x:br/>c<br/><br/>d</x:p>", "a\n\nb  \nc\n\nd"),
        ("a<b> b </b>c <i/><em>d</em>", "a **b** c *d*"),
        (
            "<x:ul><x:li>a<x:ol><x:li>b</x:li><x:li>c</x:li></x:ol></x:li><x:li>d</x:li></x:ul>e",
            "- a\n  1. b\n  2. c\n- d\n\ne",
        ),
        ("see <a href=\"u?a=1&amp;b\">the <b>page</b></a>.", "see [the **page**](u?a=1&b)."),
        ("<object data=\"i.png\" type=\"image/png\">pic</object>", "![pic](i.png)"),
        (
            "<table><tr><th>a</th><th>b</th></tr><tr><td><p>1</p><p>2</p></td><td/></tr></table>x",
            "| a | b |\n|---|---|\n| 1 2 |  |\n\nx",
        ),
        (
            "<h3/><h2>a</h2><pre>  b\n c</pre><hr/><span class=\"z\">d<!-- no --></span><u>e</u>",
            "## a\n\n```\n  b\n c\n```\n\n---\n\nde",
        ),
        ("&lt;b&gt; &#x41;&quot;<![CDATA[<c>]]> <code>&lt;d</code>", "\\<b> A\"\\<c> `<d`"),
    ] {
        assert_eq!(markdown(xml), expected, "{xml}");
    }
}

fn read_bytes(path: &str, bytes: Vec<u8>) -> Result<ImportedItems, String> {
    let content = Box::new(Cursor::new(bytes));
    let files = vec![SourceFile { path: path.to_owned(), content }];
    ReqIf.read(files, &mut ImportMapping::default())
}

#[test]
fn archive_is_read_without_its_other_files() {
    let text = document(&object("a", &string("chapter", "A")), "", "");
    let bytes = archive(&[("../../etc/a.reqif", text.as_bytes()), ("files/x.png", b"x")]);
    let imported = read_bytes("z.reqifz", bytes).unwrap();
    let sources: Vec<&str> = imported.items.iter().map(|item| &*item.source).collect();
    assert_eq!(sources, ["z.reqifz/../../etc/a.reqif#s", "z.reqifz/../../etc/a.reqif#a"]);
    assert_eq!(imported.notes[1], "z.reqifz: ignored images and other files: 1");
    let error = read_bytes("z.reqifz", b"x".to_vec()).unwrap_err();
    assert!(error.starts_with("z.reqifz: "), "{error}");
    let mut bomb = format!("{START}<A>").into_bytes();
    bomb.resize(600 << 10, b' ');
    let bomb = archive(&[("a.reqif", text.as_bytes()), ("b.reqif", &bomb), ("c.reqif", &bomb)]);
    let read = |archives: &[&Vec<u8>], max_bytes| {
        let files = archives.iter().zip(["y.reqifz", "z.reqifz"]).map(|(bytes, path)| SourceFile {
            path: path.to_owned(),
            content: Box::new(Cursor::new((*bytes).clone())),
        });
        read_files(files.collect(), max_bytes, &mut ImportMapping::default())
    };
    let error = read(&[&bomb], 1 << 19).unwrap_err();
    assert_eq!(error, "y.reqifz: the archives unpack to more than 100 MiB; split them");
    assert!(read(&[&bomb], 2 << 20).unwrap_err().ends_with("unexpected end of file"));
    let [one, two] = ["a.reqif", "b.reqif"].map(|name| archive(&[(name, text.as_bytes())]));
    let size = text.len() as u64;
    assert_eq!(read(&[&one, &two], 2 * size).unwrap().items.len(), 4);
    let error = read(&[&one, &two], 2 * size - 1).unwrap_err();
    assert!(error.starts_with("z.reqifz: the archives unpack to more than"), "{error}");
}

#[test]
fn hostile_documents_are_refused() {
    let twice = document(&object("a", "").repeat(2), "", "");
    let deep = format!("{START}{}", "<A>".repeat(100_000));
    let doctype = format!("<!DOCTYPE r [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>{START}{END}");
    let entity = document(&object("a", &xhtml("&e;")), "", "");
    let value = document(&object("a", &string("raw", "&e;")), "", "");
    let wide = document(&object("a", &string("raw", "x").repeat(1_001)), "", "");
    let reference = |text: &str| format!("<ENUM-VALUE-REF>{text}</ENUM-VALUE-REF>");
    let list = |entries: &str| format!("<ATTRIBUTE-VALUE-ENUMERATION>{entries}");
    let entries = document(&object("a", &list(&reference("e1").repeat(1_001))), "", "");
    let long = "x".repeat(4_001);
    let long_reference = document(&object("a", &list(&reference(&long))), "", "");
    let long_id = document(&object(&long, ""), "", "");
    let name =
        format!("{START}<SPEC-TYPES><SPEC-OBJECT-TYPE IDENTIFIER=\"t\" LONG-NAME=\"{long}\"/>");
    let copies = list(&reference("n").repeat(1_000)) + "</ATTRIBUTE-VALUE-ENUMERATION>";
    let copies = format!(
        "{START}<ENUM-VALUE IDENTIFIER=\"n\" LONG-NAME=\"{}\"/>{}",
        &long[1..],
        object("a", &copies.repeat(27))
    );
    let unclosed = document(&object("a", &xhtml("<b>")), "", "");
    for (text, problem) in [
        ("", "byte 0: unexpected end of file"),
        ("<html/>", "its root is \"html\", not REQ-IF"),
        (START, "unexpected end of file"),
        (&twice, "the identifier \"a\" is used twice"),
        (&deep, "nested deeper than 200"),
        (&doctype, "a DOCTYPE is not allowed"),
        (&entity, "the entity \"e\" is not allowed"),
        (&value, "unrecognized entity"),
        (&wide, "a has more than 1000 values"),
        (&entries, "a value has more than 1000 entries"),
        (&long_reference, "ENUM-VALUE-REF has more than 4000 bytes"),
        (&long_id, "an IDENTIFIER has more than 4000 bytes"),
        (&name, "a LONG-NAME has more than 4000 bytes"),
        (&copies, "its values repeat too many names"),
        (&unclosed, "byte "),
        ("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><REQ-IF/>", "encoded as \"ISO-8859-1\""),
        ("<REQ-IF><SPEC-OBJECT/></REQ-IF>", "SPEC-OBJECT has no IDENTIFIER"),
        ("<REQ-IF a=\"\"", "byte "),
    ] {
        let error = try_read(&ReqIf, &[("a.reqif", text)]).unwrap_err();
        assert!(error.starts_with("a.reqif: ") && error.contains(problem), "{problem}: {error}");
    }
    for (bytes, problem) in [
        (&b"\xff\xfe<\0"[..], "a.reqif: it is UTF-16"),
        (b"<REQ-IF>\xe4</REQ-IF>", "a.reqif: byte "),
        (b"<REQ-IF A=\"\xe4\"/>", "a.reqif: byte "),
    ] {
        let error = read_bytes("a.reqif", bytes.to_vec()).unwrap_err();
        assert!(error.starts_with(problem), "{error}");
    }
    let whole = document(&object("a", &xhtml("<b>ä</b>")), "", &place("a", &place("a", "")));
    assert_eq!(outline(&read(&ReqIf, &[("a.reqif", &whole)])), ["epic s", "user_story a"]);
    let marked = read(&ReqIf, &[("a.reqif", &format!("\u{feff}{whole}"))]);
    assert_eq!(marked.items.len(), 2);
    for end in 0..whole.len() {
        assert!(read_bytes("a.reqif", whole.as_bytes()[..end].to_vec()).is_err(), "{end}");
    }
}

#[test]
fn written_records_are_the_same_items() {
    let text =
        "# A\n\n- *b* & <c> `d`\n  continued\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```rs\nz\n```";
    let record = |id: &str, kind: &str, parent: &str, text: &str| ListedItem {
        reference_id: id.to_owned(),
        kind: kind.to_owned(),
        title: format!("\"{id}\" <ä> & 'b'"),
        parent: Some(parent.to_owned()).filter(|parent| !parent.is_empty()),
        description: Some(text.to_owned()),
        ..ListedItem::default()
    };
    let mut records = vec![
        record("EP-001", "epic", "", "One\ttwo\n\nthree"),
        record("US-001", "user_story", "EP-001", text),
        record("US-002", "user_story", "EP-001", ""),
        record("REQ-001", "requirement", "US-001", "Plain.\n\nSecond **bold**."),
        record("AC-001", "acceptance_criteria", "US-002", "It [![is](i.png)](http://x/a)."),
        record("DEC-1a", "decision", "", "Because."),
    ];
    records[0].links.insert("depends_on".to_owned(), vec!["EP-009".to_owned()]);
    records[3].links.insert("blocks".to_owned(), vec!["US-002".to_owned(), "EP-001".to_owned()]);
    records[5].links.insert("mitigates".to_owned(), vec!["REQ-001".to_owned()]);
    records[3].tags = vec!["a,b".to_owned(), "c".to_owned()];
    records[3].priority = Some(2);
    records[3].type_name = Some("Functional".into());
    records[3].assignee_username = Some("ann".to_owned());
    records[3].status = Some("Active".to_owned());
    records[3].fields.insert("risk".to_owned(), json!(2.5));
    records[3].extra.insert("statement".to_owned(), json!("a\n b"));
    records[3].extra.insert("tag".to_owned(), json!("t"));
    records[3].extra.insert("imported_from".to_owned(), json!("x"));
    let files = written(&ReqIf, records.clone());
    assert_eq!(written(&ReqIf, records.clone()), files);
    let (path, written) = &files[0];
    let imported = read(&ReqIf, &[(path, written)]);
    assert_eq!(imported.notes, [""; 0]);
    let mut expected: Vec<ImportedItem> = Vec::new();
    // In the order of the hierarchy.
    for index in [0, 1, 3, 2, 4, 5] {
        let record = &records[index];
        let texts = [&*record.kind, &record.reference_id, "", &record.title];
        let text = record.description.as_deref().unwrap();
        let mut one = item(path, [texts[0], texts[1], texts[2], texts[3], text]);
        one.parent = record.parent.as_ref().map(|parent| format!("{path}#{parent}"));
        one.id = Some(record.reference_id.clone());
        one.links = record.links.clone();
        expected.push(one);
    }
    for (name, value) in [
        ("status", "Active"),
        ("priority", "2"),
        ("type", "Functional"),
        ("assignee", "ann"),
        ("tags", "\"a,b\", c"),
        ("risk", "2.5"),
        ("statement", "a\n b"),
        ("tag", "t"),
    ] {
        expected[2].values.insert(name.to_owned(), json!(value));
    }
    let sorted = |mut items: Vec<ImportedItem>| {
        items
            .iter_mut()
            .flat_map(|item| item.links.values_mut())
            .for_each(|targets| targets.sort());
        items
    };
    assert_eq!(sorted(imported.items), sorted(expected));
    // Another tool edited the text that it shows.
    let edited = written.replace("<xhtml:em>b</xhtml:em>", "new");
    let edited = read(&ReqIf, &[(path, &edited)]).items.swap_remove(1).text;
    assert!(edited.contains("- new &"), "{edited}");
}

#[test]
fn repeated_and_undefined_values_are_named() {
    let undefined = string("raw", "x") + "<ATTRIBUTE-VALUE-STRING THE-VALUE=\"y\"/>";
    let undefined = document(&object("a", &undefined), "", "");
    let undefined = read(&ReqIf, &[("a.reqif", &undefined)]);
    let values = json!({ "Raw Value": "x", "object_type": "Thing" });
    assert_eq!(json!(undefined.items[1].values), values);
    let note = "a.reqif: ignored values without a definition: 1";
    assert_eq!(undefined.notes[1], note);
    let values: String = (0..4).map(|number| string("raw", &number.to_string())).collect();
    let numbered = document(&object("a", &(string("raw", "") + &values)), "", "");
    let numbered = read(&ReqIf, &[("a.reqif", &numbered)]).items.swap_remove(1).values;
    let values = json!({ "Raw Value": "0", "Raw Value 2": "1", "Raw Value 3": "2",
        "Raw Value 4": "3", "object_type": "Thing" });
    assert_eq!(json!(numbered), values);
}

#[test]
fn cleared_and_long_values_are_imported() {
    let cleared = [string("chapter", "A"), xhtml(""), string("id", ""), string("raw", " ")];
    let long = "x".repeat(2_001);
    let list = "<ATTRIBUTE-VALUE-ENUMERATION><VALUES/><DEFINITION>\
        <ATTRIBUTE-DEFINITION-ENUMERATION-REF>status</ATTRIBUTE-DEFINITION-ENUMERATION-REF>\
        </DEFINITION></ATTRIBUTE-VALUE-ENUMERATION>";
    let objects = object("a", &(cleared.concat() + list)) + &object("b", &string("raw", &long));
    let items = read(&ReqIf, &[("a.reqif", &document(&objects, "", ""))]).items;
    let values = json!({ "Raw Value": "", "status": "", "object_type": "Thing" });
    assert_eq!((&*items[1].title, &*items[1].text, &items[1].id), ("A", "", &None));
    assert_eq!(json!(items[1].values), values);
    assert_eq!(items[2].text, format!("## Raw Value\n\n{long}"));
    assert_eq!(json!(items[2].values), json!({ "object_type": "Thing" }));
    // A value of an exported item that another tool cleared.
    let mut record = ListedItem { kind: "requirement".to_owned(), ..ListedItem::default() };
    record.reference_id = "REQ-001".to_owned();
    record.status = Some("Active".to_owned());
    record.extra.insert("note".to_owned(), json!("here"));
    let text = written(&ReqIf, vec![record]).swap_remove(0).1;
    let edited = text.replace("\"Active\"", "\"\"").replace("\"here\"", "\"\"");
    let items = read(&ReqIf, &[("a.reqif", &edited)]).items;
    assert_eq!(json!(items[0].values), json!({ "status": "", "note": "" }));
}

#[test]
fn deeply_nested_texts_are_written_as_one() {
    let inner = "*".repeat(300);
    for text in [">".repeat(191) + " a", "> ".repeat(1_000) + "<b>", format!("{inner}a{inner}")] {
        let record = ListedItem {
            reference_id: "REQ-001".to_owned(),
            kind: "requirement".to_owned(),
            description: Some(text.clone()),
            ..ListedItem::default()
        };
        let (path, document) = written(&ReqIf, vec![record]).swap_remove(0);
        assert_eq!(read(&ReqIf, &[(&path, &document)]).items[0].text, text);
    }
}

#[test]
fn documents_and_archives_are_recognized() {
    assert_eq!(recognized("a.ReqIF", ""), "reqif");
    assert_eq!(recognized("x/a.reqifz", "PK"), "reqif");
}
