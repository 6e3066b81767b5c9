BEGIN TRANSACTION;
CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY NOT NULL);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE attempt (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	job_id INTEGER NOT NULL, 
	number INTEGER DEFAULT 0 NOT NULL, 
	epoch INTEGER DEFAULT 0 NOT NULL, 
	worker_id INTEGER NOT NULL, 
	worker TEXT NOT NULL, 
	instance TEXT NOT NULL, 
	encoder TEXT, 
	argv TEXT DEFAULT '[]' NOT NULL, 
	steps TEXT DEFAULT '{}' NOT NULL, 
	resumed_from INTEGER, 
	resumed_at_s FLOAT, 
	started_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	last_progress_at BIGINT, 
	outcome TEXT DEFAULT 'running' NOT NULL, 
	answer TEXT, 
	error_code TEXT, 
	error_text TEXT, 
	log TEXT, 
	CONSTRAINT uq_attempt_job_id_epoch UNIQUE (job_id, epoch), 
	CONSTRAINT ck_attempt_outcome CHECK (outcome IN ('running', 'done', 'failed', 'lost', 'paused', 'cancelled', 'released')), 
	CONSTRAINT fk_attempt_job_id_job FOREIGN KEY(job_id) REFERENCES job (id), 
	CONSTRAINT fk_attempt_worker_id_worker FOREIGN KEY(worker_id) REFERENCES worker (id)
);
CREATE TABLE event (
	seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at BIGINT NOT NULL, 
	"trigger" TEXT NOT NULL, 
	job_id INTEGER, 
	video_id INTEGER, 
	worker TEXT, 
	source TEXT, 
	target TEXT, 
	actor TEXT NOT NULL, 
	code TEXT, 
	detail TEXT, 
	CONSTRAINT ck_event_detail CHECK (detail IS NULL OR length(detail) <= 500)
);
CREATE TABLE folder (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	path BLOB NOT NULL, 
	output_root BLOB NOT NULL, 
	profile TEXT NOT NULL, 
	watch TEXT DEFAULT 'auto' NOT NULL, 
	enabled INTEGER DEFAULT 1 NOT NULL, 
	recursive INTEGER DEFAULT 1 NOT NULL, 
	patterns TEXT DEFAULT '[]' NOT NULL, 
	settle_s FLOAT, 
	priority INTEGER DEFAULT 0 NOT NULL, 
	created_at BIGINT NOT NULL, 
	autorestart_limit INTEGER DEFAULT 0 NOT NULL, 
	autorestart_delay_s FLOAT DEFAULT 0 NOT NULL, 
	CONSTRAINT uq_folder_path UNIQUE (path)
);
CREATE TABLE gate (
	kind TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	path BLOB, 
	since BIGINT NOT NULL, 
	CONSTRAINT pk_gate PRIMARY KEY (kind), 
	CONSTRAINT ck_gate_kind CHECK (kind IN ('user', 'disk', 'backpressure'))
);
CREATE TABLE generation (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	video_id INTEGER NOT NULL, 
	number INTEGER DEFAULT 0 NOT NULL, 
	settings_hash TEXT NOT NULL, 
	omitted TEXT DEFAULT '{}' NOT NULL, 
	poster TEXT, 
	published_at BIGINT NOT NULL, 
	retired_at BIGINT, 
	removed_at BIGINT, 
	CONSTRAINT uq_generation_video_id_number UNIQUE (video_id, number), 
	CONSTRAINT fk_generation_video_id_video FOREIGN KEY(video_id) REFERENCES video (id)
);
CREATE TABLE idempotency (
	"key" TEXT NOT NULL, 
	answer TEXT NOT NULL, 
	at BIGINT NOT NULL, 
	CONSTRAINT pk_idempotency PRIMARY KEY ("key")
);
CREATE TABLE job (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	video_id INTEGER NOT NULL, 
	batch TEXT, 
	kind TEXT DEFAULT 'new' NOT NULL, 
	profile TEXT NOT NULL, 
	profile_json TEXT NOT NULL, 
	unprobed INTEGER DEFAULT 0 NOT NULL, 
	prefer_gpu INTEGER DEFAULT 0 NOT NULL, 
	requested TEXT, 
	dropped TEXT DEFAULT '[]' NOT NULL, 
	status TEXT DEFAULT 'pending' NOT NULL, 
	step TEXT, 
	progress FLOAT DEFAULT 0 NOT NULL, 
	priority INTEGER DEFAULT 0 NOT NULL, 
	not_before BIGINT, 
	ready_at BIGINT, 
	attempts INTEGER DEFAULT 0 NOT NULL, 
	crashes INTEGER DEFAULT 0 NOT NULL, 
	segments_at_crash INTEGER DEFAULT 0 NOT NULL, 
	resumed_at_crash_s FLOAT DEFAULT 0 NOT NULL, 
	starts_over INTEGER DEFAULT 0 NOT NULL, 
	max_attempts INTEGER DEFAULT 3 NOT NULL, 
	max_crashes INTEGER DEFAULT 3 NOT NULL, 
	epoch INTEGER DEFAULT 0 NOT NULL, 
	supervisor_id INTEGER, 
	worker_id INTEGER, 
	instance TEXT, 
	claimed_at BIGINT, 
	control TEXT DEFAULT 'none' NOT NULL, 
	error_code TEXT, 
	error_text TEXT, 
	error_hint TEXT, 
	error_log TEXT, 
	exhausted INTEGER DEFAULT 0 NOT NULL, 
	autorestart TEXT DEFAULT 'disabled' NOT NULL, 
	autorestart_limit INTEGER DEFAULT 0 NOT NULL, 
	autorestart_delay_s FLOAT DEFAULT 0 NOT NULL, 
	restarts INTEGER DEFAULT 0 NOT NULL, 
	last_restart_at BIGINT, 
	processed_by_id INTEGER, 
	processed_by TEXT, 
	metadata_json TEXT DEFAULT '{}' NOT NULL, 
	warnings TEXT DEFAULT '[]' NOT NULL, 
	created_at BIGINT NOT NULL, 
	started_at BIGINT, 
	last_progress_at BIGINT, 
	completed_at BIGINT, 
	deleted_at BIGINT, 
	predicted_s FLOAT, 
	actual_s FLOAT, 
	idempotency_key TEXT, 
	CONSTRAINT ck_job_kind CHECK (kind IN ('new', 'retranscode', 'changed')), 
	CONSTRAINT ck_job_status CHECK (status IN ('pending', 'in_progress', 'paused', 'done', 'failed', 'cancelled')), 
	CONSTRAINT ck_job_step CHECK (step IS NULL OR step IN ('probe', 'thumbnail', 'transcode', 'master_playlist', 'finalize')), 
	CONSTRAINT ck_job_control CHECK (control IN ('none', 'pause', 'cancel', 'restart')), 
	CONSTRAINT ck_job_autorestart CHECK (autorestart IN ('disabled', 'enabled', 'in_progress', 'failed', 'denied')), 
	CONSTRAINT ck_job_lease CHECK ((status = 'in_progress') = (supervisor_id IS NOT NULL) AND (status = 'in_progress') = (worker_id IS NOT NULL) AND (status = 'in_progress') = (instance IS NOT NULL)), 
	CONSTRAINT ck_job_control_of_running CHECK (status = 'in_progress' OR control = 'none'), 
	CONSTRAINT ck_job_counters CHECK (attempts <= max_attempts AND crashes <= max_crashes), 
	CONSTRAINT fk_job_video_id_video FOREIGN KEY(video_id) REFERENCES video (id), 
	CONSTRAINT fk_job_supervisor_id_supervisor FOREIGN KEY(supervisor_id) REFERENCES supervisor (id), 
	CONSTRAINT fk_job_worker_id_worker FOREIGN KEY(worker_id) REFERENCES worker (id)
);
CREATE TABLE job_count (
	status TEXT NOT NULL, 
	n INTEGER DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_job_count PRIMARY KEY (status)
);
INSERT INTO "job_count" VALUES('pending',0);
INSERT INTO "job_count" VALUES('in_progress',0);
INSERT INTO "job_count" VALUES('paused',0);
INSERT INTO "job_count" VALUES('done',0);
INSERT INTO "job_count" VALUES('failed',0);
INSERT INTO "job_count" VALUES('cancelled',0);
CREATE TABLE publication (
	job_id INTEGER NOT NULL, 
	epoch INTEGER DEFAULT 0 NOT NULL, 
	video_id INTEGER NOT NULL, 
	number INTEGER DEFAULT 0 NOT NULL, 
	slug TEXT NOT NULL, 
	manifest TEXT NOT NULL, 
	full_hash TEXT, 
	begun_at BIGINT NOT NULL, 
	CONSTRAINT pk_publication PRIMARY KEY (job_id), 
	CONSTRAINT fk_publication_job_id_job FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE, 
	CONSTRAINT fk_publication_video_id_video FOREIGN KEY(video_id) REFERENCES video (id)
);
CREATE TABLE published (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	generation_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	width INTEGER, 
	height INTEGER, 
	frame_rate FLOAT, 
	codecs TEXT NOT NULL, 
	duration_s FLOAT DEFAULT 0 NOT NULL, 
	average_bps INTEGER DEFAULT 0 NOT NULL, 
	peak_bps INTEGER DEFAULT 0 NOT NULL, 
	size BIGINT NOT NULL, 
	settings_hash TEXT NOT NULL, 
	stream_key TEXT NOT NULL, 
	language TEXT, 
	title TEXT, 
	channels INTEGER, 
	is_default INTEGER DEFAULT 0 NOT NULL, 
	files TEXT NOT NULL, 
	CONSTRAINT uq_published_generation_id_name UNIQUE (generation_id, name), 
	CONSTRAINT fk_published_generation_id_generation FOREIGN KEY(generation_id) REFERENCES generation (id)
);
CREATE TABLE rendition (
	job_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	position INTEGER DEFAULT 0 NOT NULL, 
	status TEXT DEFAULT 'pending' NOT NULL, 
	reason TEXT, 
	required INTEGER DEFAULT 1 NOT NULL, 
	width INTEGER, 
	height INTEGER, 
	encoder TEXT, 
	progress FLOAT DEFAULT 0 NOT NULL, 
	segments_done INTEGER DEFAULT 0 NOT NULL, 
	segments_total INTEGER, 
	speed FLOAT, 
	settings_hash TEXT, 
	stream_key TEXT, 
	error TEXT, 
	started_at BIGINT, 
	completed_at BIGINT, 
	CONSTRAINT pk_rendition PRIMARY KEY (job_id, name), 
	CONSTRAINT ck_rendition_status CHECK (status IN ('pending', 'in_progress', 'completed', 'failed', 'skipped')), 
	CONSTRAINT fk_rendition_job_id_job FOREIGN KEY(job_id) REFERENCES job (id) ON DELETE CASCADE
);
CREATE TABLE speed (
	"key" TEXT NOT NULL, 
	value FLOAT DEFAULT 0 NOT NULL, 
	samples INTEGER DEFAULT 0 NOT NULL, 
	work_s FLOAT DEFAULT 0 NOT NULL, 
	at BIGINT NOT NULL, 
	CONSTRAINT pk_speed PRIMARY KEY ("key")
);
CREATE TABLE supervisor (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	store_uuid TEXT NOT NULL, 
	pid INTEGER, 
	version TEXT, 
	started_at BIGINT, 
	expires_at BIGINT NOT NULL
);
CREATE TABLE video (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	folder_id INTEGER, 
	source BLOB NOT NULL, 
	output_root BLOB NOT NULL, 
	name TEXT NOT NULL, 
	name_lower TEXT NOT NULL, 
	title TEXT NOT NULL, 
	slug TEXT NOT NULL, 
	size BIGINT NOT NULL, 
	mtime_ns BIGINT NOT NULL, 
	quick_hash TEXT, 
	full_hash TEXT, 
	facts TEXT, 
	probe_error TEXT, 
	inode BIGINT, 
	generation_id INTEGER, 
	created_at BIGINT NOT NULL, 
	deleted_at BIGINT, 
	CONSTRAINT uq_video_source_output_root UNIQUE (source, output_root), 
	CONSTRAINT uq_video_output_root_slug UNIQUE (output_root, slug), 
	CONSTRAINT fk_video_folder_id_folder FOREIGN KEY(folder_id) REFERENCES folder (id)
);
CREATE TABLE worker (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	type TEXT DEFAULT 'local' NOT NULL, 
	kind TEXT NOT NULL, 
	device TEXT, 
	encoder TEXT, 
	enabled INTEGER DEFAULT 1 NOT NULL, 
	draining INTEGER DEFAULT 0 NOT NULL, 
	instance TEXT, 
	pid INTEGER, 
	pid_started FLOAT, 
	capabilities TEXT DEFAULT '{}' NOT NULL, 
	metadata_json TEXT DEFAULT '{}' NOT NULL, 
	registered_at BIGINT, 
	last_heartbeat_at BIGINT, 
	offline_at BIGINT, 
	suspected_at BIGINT, 
	quarantined_at BIGINT, 
	quarantine_reason TEXT, 
	failed_jobs TEXT DEFAULT '[]' NOT NULL, 
	CONSTRAINT uq_worker_name UNIQUE (name), 
	CONSTRAINT ck_worker_kind CHECK (kind IN ('cpu', 'gpu'))
);
CREATE INDEX ix_event_at ON event (at);
CREATE INDEX ix_event_job ON event (job_id, seq);
CREATE INDEX ix_video_search ON video (id, folder_id, name_lower);
CREATE INDEX ix_video_inode ON video (inode) WHERE inode IS NOT NULL;
CREATE INDEX ix_job_ready ON job (prefer_gpu, priority DESC, created_at, id) WHERE status = 'pending' AND not_before IS NULL AND deleted_at IS NULL;
CREATE INDEX ix_job_status ON job (status, id, video_id) WHERE deleted_at IS NULL;
CREATE INDEX ix_job_deleted_waiting ON job (status, priority DESC, created_at, id, video_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX ix_job_instance ON job (instance) WHERE status = 'in_progress';
CREATE INDEX ix_job_batch ON job (batch, id) WHERE batch IS NOT NULL;
CREATE INDEX ix_job_ended ON job (status, completed_at DESC, id DESC, video_id) WHERE deleted_at IS NULL;
CREATE INDEX ix_job_deleted_ended ON job (status, completed_at DESC, id DESC, video_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX ix_job_video ON job (video_id, id);
CREATE UNIQUE INDEX ix_job_one_open ON job (video_id) WHERE status IN ('pending', 'in_progress', 'paused') AND deleted_at IS NULL;
CREATE INDEX ix_job_predicted ON job (completed_at DESC, id DESC) WHERE predicted_s IS NOT NULL AND status = 'done' AND deleted_at IS NULL;
CREATE INDEX ix_job_autorestart ON job (id) WHERE status = 'failed' AND autorestart IN ('enabled', 'in_progress') AND deleted_at IS NULL;
CREATE INDEX ix_job_unprobed ON job (priority DESC, created_at, id) WHERE unprobed = 1 AND status IN ('pending', 'paused') AND deleted_at IS NULL;
CREATE INDEX ix_job_waiting ON job (status, priority DESC, created_at, id, video_id) WHERE deleted_at IS NULL;
CREATE INDEX ix_job_backoff ON job (not_before) WHERE status = 'pending' AND not_before IS NOT NULL;
CREATE INDEX ix_job_deleted_status ON job (status, id, video_id) WHERE deleted_at IS NOT NULL;
CREATE TRIGGER job_count_insert AFTER INSERT ON job WHEN new.deleted_at IS NULL BEGIN UPDATE job_count SET n = n + 1 WHERE status = new.status; END;
CREATE TRIGGER job_count_delete AFTER DELETE ON job WHEN old.deleted_at IS NULL BEGIN UPDATE job_count SET n = n - 1 WHERE status = old.status; END;
CREATE TRIGGER job_count_update AFTER UPDATE OF status, deleted_at ON job WHEN old.status <> new.status OR (old.deleted_at IS NULL) <> (new.deleted_at IS NULL) BEGIN UPDATE job_count SET n = n - 1 WHERE status = old.status AND old.deleted_at IS NULL; UPDATE job_count SET n = n + 1 WHERE status = new.status AND new.deleted_at IS NULL; END;
DELETE FROM "sqlite_sequence";
COMMIT;