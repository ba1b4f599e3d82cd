//! Shares modules through a real registry with other programs, both ways: what clawhost publishes and signs is pulled by the library of wkg and
//! verified by sigstore; what these push and sign is pulled by clawhost. Started by `cargo xtask interop`, as `interop PROGRAM COMPONENT`.

mod clawhost;
mod others;
mod server;

use anyhow::{Context as _, Result, ensure};
use clawhost::Clawhost;
use server::Server;
use std::path::PathBuf;

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let (program, component) = (words.next(), words.next());
    let (program, component) = program.zip(component).context("interop PROGRAM COMPONENT")?;
    let server = Server::start()?;
    let clawhost = Clawhost::new(program, &component)?;
    for name in ["shop", "other"] {
        clawhost.run(&["keys", "new", name])?;
    }
    println!("registry at {}", server.address());
    published_here(&clawhost, &server).await?;
    published_elsewhere(&clawhost, &server).await
}

/// What clawhost publishes.
async fn published_here(clawhost: &Clawhost, server: &Server) -> Result<()> {
    let folder = clawhost.plugin("exact", "1.0.0")?;
    let (image, target) = server.image("shop/exact", "1.0.0");
    clawhost.run(&["publish", &target, &folder, "--key", "shop", "--despite-checks"])?;
    let built = clawhost.built(&folder)?;
    ensure!(others::pulled(&image).await? == built, "wkg's library pulls another component than was published");
    println!("ok: wkg's library pulls what clawhost published ({} bytes)", built.len());
    ensure!(
        others::is_signed_by(&image, &clawhost.public_key("shop")?).await?,
        "sigstore does not accept the signature"
    );
    ensure!(!others::is_signed_by(&image, &clawhost.public_key("other")?).await?, "sigstore accepts another key");
    println!("ok: sigstore verifies the signature of clawhost, and refuses another key");
    Ok(())
}

/// What other programs publish.
async fn published_elsewhere(clawhost: &Clawhost, server: &Server) -> Result<()> {
    let folder = clawhost.plugin("foreign", "1.0.0")?;
    let bytes = clawhost.built(&folder)?;
    let (image, _) = server.image("shop/foreign", "1.0.0");
    others::push(&image, &bytes, ("shop/foreign", "1.0.0", "reward")).await?;
    let pull = ["pull", "shop/foreign", "--from", &server.location()];
    let file = |said: serde_json::Value| Ok::<_, anyhow::Error>(said["file"].as_str().context("no file")?.to_owned());
    ensure!(std::fs::read(file(clawhost.run(&pull)?)?)? == bytes, "clawhost pulls another component than wkg pushed");
    println!("ok: clawhost pulls what wkg's library pushed");
    clawhost.run(&["keys", "policy", "required"])?;
    let refused = clawhost.refused(&pull)?;
    ensure!(refused.contains("is not signed"), "{refused}");
    others::sign(&image, &clawhost.private_key("other")?, ("shop/foreign", "1.0.0")).await?;
    let refused = clawhost.refused(&pull)?;
    ensure!(refused.contains("none of them by a key that is trusted"), "{refused}");
    let key = clawhost.public_file("other");
    clawhost.run(&["keys", "trust", &key, "--team", "shop"])?;
    let pulled = clawhost.run(&pull)?;
    ensure!(pulled["pulled"]["signed_by"].is_string(), "{pulled}");
    println!("ok: clawhost accepts the signature of sigstore once its key is trusted");
    let (named, _) = server.image("shop/named", "1.0.0");
    others::push(&named, &bytes, ("shop/named", "1.0.0", "reward")).await?;
    others::sign(&named, &clawhost.private_key("other")?, ("shop/else", "1.0.0")).await?;
    let refused = clawhost.refused(&["pull", "shop/named", "--from", &server.location()])?;
    ensure!(refused.contains("it is for shop/else"), "{refused}");
    clawhost.run(&["keys", "revoke", "other"])?;
    let refused = clawhost.refused(&pull)?;
    ensure!(refused.contains("which was revoked"), "{refused}");
    println!("ok: a signature of sigstore for another name, and one by a revoked key, are refused");
    Ok(())
}
