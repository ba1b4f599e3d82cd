//! Stored plugins: a row by digest, and the component as a blob.

use crate::error::{Fault, damaged};
use crate::integers::{signed, unsigned};
use crate::reader::Reader;
use crate::writer::{Content, NewBlob, Store, Write, off_executor};
use async_trait::async_trait;
use clawhost_core::{Digest, PluginIdentity, PluginReader, PluginStore, StoreError, StoredPlugin};
use rusqlite::{OptionalExtension as _, Transaction, params};

pub(crate) struct PluginRow {
    identity: PluginIdentity,
    world: String,
    size: u64,
}

#[async_trait]
impl PluginStore for Store {
    async fn keep_plugin(&self, plugin: &PluginIdentity, world: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        let (digest, name) = (plugin.digest, plugin.name.clone());
        let size = bytes.len() as u64;
        let blob = off_executor(move || {
            if Digest::of(&bytes) != digest {
                return Err(StoreError::Other(format!("plugin {name}: its bytes have another digest than {digest}")));
            }
            Ok(NewBlob { digest, content: Content::Component(bytes) })
        });
        let row = PluginRow { identity: plugin.clone(), world: world.to_owned(), size };
        self.write_with(Write::Plugin(row), vec![blob.await?]).await
    }

    async fn namesakes(&self, plugin: &PluginIdentity, world: &str) -> Result<Vec<Digest>, StoreError> {
        let (plugin, world) = (plugin.clone(), world.to_owned());
        self.read(move |reader| reader.namesakes(&plugin, &world)).await
    }
}

pub(crate) fn keep(transaction: &Transaction<'_>, row: &PluginRow) -> Result<(), Fault> {
    let PluginRow { identity, world, size } = row;
    transaction
        .prepare_cached("INSERT OR IGNORE INTO plugins (digest, name, version, world, size) VALUES (?, ?, ?, ?, ?)")?
        .execute(params![identity.digest.to_string(), identity.name, identity.version, world, signed(*size)])?;
    Ok(())
}

impl Reader {
    fn namesakes(&self, plugin: &PluginIdentity, world: &str) -> Result<Vec<Digest>, StoreError> {
        let PluginIdentity { name, version, digest } = plugin;
        let digests: Vec<String> = self.query(|connection| {
            connection
                .prepare_cached(
                    "SELECT digest FROM plugins WHERE name = ? AND version = ? AND world = ? AND digest <> ?
                     ORDER BY digest",
                )?
                .query_map(params![name, version, world, digest.to_string()], |row| row.get(0))?
                .collect()
        })?;
        let read = |text: &String| {
            text.parse::<Digest>().map_err(|error| damaged(self.path(), &format!("a kept plugin {name}"), &error))
        };
        digests.iter().map(read).collect()
    }
}

/// Name, version, world, size.
type PluginColumns = (String, String, String, i64);

impl PluginReader for Reader {
    fn plugin(&self, digest: &Digest) -> Result<Option<StoredPlugin>, StoreError> {
        let row = || -> Result<Option<PluginColumns>, StoreError> {
            self.query(|connection| {
                connection
                    .prepare_cached("SELECT name, version, world, size FROM plugins WHERE digest = ?")?
                    .query_row([digest.to_string()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
                    .optional()
            })
        };
        self.with_blobs(row, |(name, version, world, size)| {
            let bytes = self.blobs().get(&format!("plugin {name}"), digest, unsigned(*size))?;
            Ok(StoredPlugin { name: name.clone(), version: version.clone(), world: world.clone(), bytes })
        })
    }
}
