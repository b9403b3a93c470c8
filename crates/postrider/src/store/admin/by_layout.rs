//! The operations that every database has for both kinds of layout: the default one, and a table with a state per row.
//! The choice between the two stores depends only on the outbox and is written once, here.

/// The part of an `impl Admin` that calls `log` or `rows`. Their functions take the field `at` and, for rows, the
/// table; `await` is given if they are async.
macro_rules! by_layout {
    (at: $at:ident, log: $Log:ident, rows: $Rows:ident, open: $open:ident $(, $await:tt)?) => {
        fn row_table(&self) -> Option<&RowTable> {
            self.table.as_ref()
        }

        fn open(&self) -> BoxFuture<'_, Result<Arc<dyn Store>>> {
            Box::pin(self.named(async move {
                Ok(match &self.table {
                    Some(table) => Arc::new($Rows::$open(&self.$at, table)$(.$await)??) as Arc<dyn Store>,
                    None => Arc::new($Log::$open(&self.$at)$(.$await)??),
                })
            }))
        }

        fn open_exclusive(&self) -> BoxFuture<'_, Result<Arc<dyn AdoptSource>>> {
            Box::pin(self.named(async move {
                Ok(match &self.table {
                    Some(table) => {
                        let store = $Rows::$open(&self.$at, &super::exclusive(table))$(.$await)??;
                        Arc::new(store) as Arc<dyn AdoptSource>
                    }
                    None => Arc::new($Log::$open(&self.$at)$(.$await)??),
                })
            }))
        }

        fn count_events(&self, by: CountBy, groups_max: usize) -> BoxFuture<'_, Result<EventCounts>> {
            Box::pin(self.named(async move {
                match &self.table {
                    Some(table) => $Rows::count_events(&self.$at, table, by, groups_max)$(.$await)?,
                    None => $Log::count_events(&self.$at, by, groups_max)$(.$await)?,
                }
            }))
        }

        fn list<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<ListedEvent>>> {
            Box::pin(self.named(async move {
                filter.check(self.table.as_ref())?;
                let found = match &self.table {
                    Some(table) => $Rows::list(&self.$at, table, filter)$(.$await)?,
                    None => $Log::list(&self.$at, &filter.within_action())$(.$await)?,
                };
                found.map(|found| filter.shown(found))
            }))
        }

        fn list_plan<'a>(&'a self, filter: &'a EventFilter) -> BoxFuture<'a, Result<Vec<String>>> {
            Box::pin(self.named(async move {
                filter.check(self.table.as_ref())?;
                match &self.table {
                    Some(table) => $Rows::list_plan(&self.$at, table, filter)$(.$await)?,
                    None => $Log::list_plan(&self.$at, &filter.within_action())$(.$await)?,
                }
            }))
        }

        fn schema(&self) -> BoxFuture<'_, Result<Schema>> {
            Box::pin(self.named(async move {
                match &self.table {
                    Some(_) => $Rows::schema(&self.$at)$(.$await)?,
                    None => $Log::schema(&self.$at)$(.$await)?,
                }
            }))
        }

        fn migrate(
            &self,
            layout: Option<RowLayout>,
            extras: RowExtras,
        ) -> BoxFuture<'_, Result<MigrationReport>> {
            Box::pin(self.named(async move {
                if let Some(table) = super::migrate::table_to_create(self.table.as_ref(), layout, extras)? {
                    let table = with_default_schema(table, &self.$at)?;
                    return Ok($Rows::migrate(&self.$at, &table, extras)$(.$await)??.into());
                }
                let migrated = $Log::migrate(&self.$at)$(.$await)??;
                if extras.views {
                    $Log::create_views(&self.$at)$(.$await)??;
                }
                Ok(migrated.into())
            }))
        }

        fn differences(&self) -> BoxFuture<'_, Result<Vec<Difference>>> {
            Box::pin(self.named(async move {
                match &self.table {
                    Some(table) => $Rows::differences(&self.$at, table)$(.$await)?,
                    None => Ok(Vec::new()),
                }
            }))
        }

        fn foreign_claims(&self) -> BoxFuture<'_, Result<u64>> {
            Box::pin(self.named(async move {
                match &self.table {
                    Some(table) => $Rows::foreign_claims(&self.$at, table)$(.$await)?,
                    None => Ok(0),
                }
            }))
        }
    };
}
pub(super) use by_layout;

/// The part of an `impl Admin` that only servers have: schemas, handlers and roles.
#[cfg(feature = "_server")]
macro_rules! of_server {
    (log: $Log:ident, rows: $Rows:ident) => {
        fn outbox(&self, outbox: Outbox) -> Outbox {
            super::outbox_for(outbox, self.table.as_ref(), self.config.schema_name())
        }

        fn handler_check(&self) -> BoxFuture<'_, Result<HandlerCheck>> {
            Box::pin(self.named(async move {
                match &self.table {
                    Some(table) => $Rows::handler_check(&self.config, table).await,
                    None => Ok(HandlerCheck::default()),
                }
            }))
        }

        fn roles_sql(&self) -> Result<String> {
            match &self.table {
                Some(table) if table.layout.has(Ability::Notifications) => {
                    $Rows::roles(self.config.schema_name(), table)
                }
                Some(table) => Err(super::no_roles(table)),
                None => $Log::roles(self.config.schema_name()),
            }
        }
    };
}
#[cfg(feature = "_server")]
pub(super) use of_server;
