//! Proofs between teams: one signs what it claims, another one verifies it.

use super::{Team, guests};

#[test]
fn a_signed_proof_is_verified_by_another_team() {
    let Some(guests) = guests::folder_or_skip("a_signed_proof_is_verified_by_another_team") else { return };
    let (a, b) = (Team::new(), Team::new());
    let guest = |name: &str| guests.join(format!("{name}.wasm")).display().to_string();
    let (environment, reward) = (guest("env_math"), guest("reward_exact"));
    a.json(&["keys", "new", "shop"]);
    let proved = |seed: &str, bundle: &str| {
        a.json(&["run", &environment, "--reward", &reward, "--episodes", "6", "--seed", seed]);
        a.json(&["prove", "last", "--out", bundle, "--key", "shop"]);
        a.path(bundle).display().to_string()
    };
    let (claim, other) = (proved("1", "one.claim"), proved("2", "two.claim"));
    let verified = b.json(&["verify", &claim])["verified"].clone();
    assert_eq!((&verified["proof"], &verified["signature"]["by"]), (&"reproduced".into(), &"stranger".into()));
    b.json(&["keys", "trust", &a.path("data/keys/shop.pub").display().to_string()]);
    let verified = b.json(&["verify", &claim])["verified"].clone();
    assert_eq!((&verified["signature"]["by"], &verified["signature"]["name"]), (&"trusted".into(), &"shop".into()));
    // A signature of another bundle vouches for nothing.
    std::fs::copy(format!("{other}.sig"), format!("{claim}.sig")).unwrap();
    let output = b.run(&["verify", &claim]);
    let said = super::said(&output);
    assert_eq!(output.status.code(), Some(8), "{said}");
    assert!(said.contains("it is about another bundle"), "{said}");
    std::fs::remove_file(format!("{claim}.sig")).unwrap();
    assert_eq!(b.json(&["verify", &claim])["verified"]["signature"]["by"], "nobody");
}
