//! Puts the manifest into the component, so that it travels with it and is part of its digest.

use clawhost_package::MANIFEST_SECTION;
use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::{Parser, Payload};

/// The component with this manifest as its last section, instead of any other manifest.
///
/// # Errors
/// The bytes are no component.
pub fn with_manifest(component: &[u8], manifest: &str) -> Result<Vec<u8>, String> {
    let wrong = |error: wasmparser::BinaryReaderError| error.to_string();
    let mut out = Vec::with_capacity(component.len().saturating_add(manifest.len()));
    // Everything is copied in order, up to the end of each outermost part; parts that are a manifest are left out.
    let (mut depth, mut copied) = (0u32, 0usize);
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload.map_err(wrong)?;
        let is_manifest = matches!(&payload, Payload::CustomSection(section) if section.name() == MANIFEST_SECTION);
        let end = match &payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth = depth.saturating_add(1);
                continue;
            }
            Payload::End(at) => {
                depth = depth.saturating_sub(1);
                *at
            }
            Payload::Version { range, .. } => range.end,
            other => match other.as_section() {
                Some((_, range)) => range.end,
                None => continue,
            },
        };
        if depth > 0 {
            continue;
        }
        if !is_manifest {
            out.extend_from_slice(component.get(copied..end).unwrap_or_default());
        }
        copied = copied.max(end);
    }
    out.extend_from_slice(component.get(copied..).unwrap_or_default());
    CustomSection { name: MANIFEST_SECTION.into(), data: manifest.as_bytes().into() }.append_to_component(&mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn a_manifest_is_put_in_once_and_replaced_by_a_newer_one() {
        let long = "x".repeat(300);
        let first = with_manifest(EMPTY, "a").unwrap();
        assert!(first.ends_with(b"claw.tomla"));
        assert_eq!(with_manifest(&first, &long).unwrap(), with_manifest(EMPTY, &long).unwrap());
        let replaced = with_manifest(&with_manifest(EMPTY, &long).unwrap(), "a").unwrap();
        assert_eq!(replaced, first);
        assert!(Parser::new(0).parse_all(&first).all(|payload| payload.is_ok()));
        assert!(with_manifest(b"no component", "a").is_err());
    }

    #[test]
    fn other_sections_stay_byte_for_byte() {
        let mut component = EMPTY.to_vec();
        CustomSection { name: "before".into(), data: b"1".as_slice().into() }.append_to_component(&mut component);
        // A manifest whose length is written in more bytes than it needs.
        component.extend([&[0, 0x8b, 0x80, 0x00, 9][..], b"claw.toml", b"x"].concat());
        let expect = component.len();
        CustomSection { name: "behind".into(), data: b"2".as_slice().into() }.append_to_component(&mut component);
        let nested = {
            let mut module = vec![1u8, 8];
            module.extend(b"\0asm\x01\0\0\0");
            module
        };
        component.extend(&nested);
        let behind = component.get(expect..).unwrap().to_vec();
        let made = with_manifest(&component, "new").unwrap();
        let text = String::from_utf8_lossy(&made).into_owned();
        assert_eq!(
            (text.matches("claw.toml").count(), text.contains("before"), text.contains("behind")),
            (1, true, true)
        );
        assert!(made.windows(behind.len()).any(|window| window == behind));
        assert!(Parser::new(0).parse_all(&made).all(|payload| payload.is_ok()));
    }
}
