//! MySQL and MariaDB as sources: binlog reader and row decoder, GTIDs, snapshot reader.

mod binlog;
