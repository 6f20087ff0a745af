--
-- PostgreSQL database dump
--

\restrict DqbiWPMXe6wlcp26DJ493UGSLQdo0nSe6lB5qLgPasBLK9ZAjbAh42eUMvFGoYk

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Data for Name: organisations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.organisations (id, name, operator, created_at, max_sandboxes, max_running, max_snapshots, max_memory_mib) VALUES ('org_0000000000000000', 'default', true, '2026-11-30 03:31:41.22+00', NULL, NULL, NULL, NULL);
INSERT INTO public.organisations (id, name, operator, created_at, max_sandboxes, max_running, max_snapshots, max_memory_mib) VALUES ('org_hqr22xmedv8bpmjf', 'acme', false, '2026-11-30 03:31:45.678+00', 10, NULL, NULL, 4096);


--
-- Data for Name: projects; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal, snapshot_policy, deleted_at) OVERRIDING SYSTEM VALUE VALUES ('prj_0000000000000000', 'org_0000000000000000', 'default', '2026-11-30 03:31:41.22+00', 1, '{}', NULL);
INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal, snapshot_policy, deleted_at) OVERRIDING SYSTEM VALUE VALUES ('prj_nwk3b1a0gthyvtpg', 'org_0000000000000000', 'second', '2026-11-30 03:31:45.604+00', 2, '{"everyMs": "off"}', NULL);
INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal, snapshot_policy, deleted_at) OVERRIDING SYSTEM VALUE VALUES ('prj_7je9taecs0148zst', 'org_hqr22xmedv8bpmjf', 'default', '2026-11-30 03:31:45.678+00', 3, '{}', NULL);
INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal, snapshot_policy, deleted_at) OVERRIDING SYSTEM VALUE VALUES ('prj_c507kzncaw307vby', 'org_0000000000000000', 'third', '2026-11-30 03:31:45.702+00', 4, '{}', '2026-11-30 03:31:45.711+00');


--
-- Data for Name: api_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_vszc1tr0p040mvb1', 'space_UGD_', '\x5a66362be4cd46ad989e33001983179010151a1ac48e844deccea00a7ee68404', '2026-11-30 03:31:45.642+00', 'org_0000000000000000', 'prj_nwk3b1a0gthyvtpg', 'ci', '{developer,viewer}', NULL);
INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_5k9r5bwt6gts1kse', 'space_K4yE', '\x23b9acb83bc6e4363954d3689ca2cf2fdc79f2b0b10ebe7f9711fcd0d389d07a', '2026-11-30 03:31:45.661+00', 'org_0000000000000000', NULL, NULL, '{auditor}', '2026-11-30 03:31:45.67+00');
INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_6cefjn51bnh75vzx', 'space_QF9f', '\x6e442418564c816626d782a5326dda60c8d7b006440521c518a69e01eb942186', '2026-11-30 03:31:45.678+00', 'org_hqr22xmedv8bpmjf', NULL, NULL, '{admin}', NULL);


--
-- Data for Name: audit; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_vcm2z7ev0c7df60t', 'req_1', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_f5jg96e5t0z6kmwc', 'opn_xy6928bbpx9cqrm2', NULL, '2026-11-30 03:31:42.179+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_rc17er0hndreyskd', 'req_2', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_f5jg96e5t0z6kmwc', NULL, 'ok', '2026-11-30 03:31:42.329+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_mhzat7m72jb61ve9', 'req_3', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_f5jg96e5t0z6kmwc', 'opn_52586w40b7d1wnd5', NULL, '2026-11-30 03:31:42.443+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_bbhwxn2h92cfmqn0', 'req_4', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_f5jg96e5t0z6kmwc', NULL, 'ok', '2026-11-30 03:31:42.634+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_yhbd4xwqh39akmc2', 'req_5', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_f5jg96e5t0z6kmwc', 'opn_1c5hpytpwm977235', NULL, '2026-11-30 03:31:42.748+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_fyyxhfymv1xc14jh', 'req_6', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_f5jg96e5t0z6kmwc', NULL, 'ok', '2026-11-30 03:31:42.921+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_j950kjwqwtqjmab8', 'req_7', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.change', 'rewindSandbox', 'sbx_f5jg96e5t0z6kmwc', 'opn_x5n2x9fzzgg2sx27', NULL, '2026-11-30 03:31:43.016+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_pq11z7mjnbr5yx5q', 'req_8', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'forkSandbox', 'sbx_f5jg96e5t0z6kmwc', 'opn_c6zfcnkj58b59v3r', NULL, '2026-11-30 03:31:43.283+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_7s4wh9p90whq1kh4', 'req_9', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.change', 'pauseSandbox', 'sbx_f5jg96e5t0z6kmwc', 'opn_mra9d602kzf4zpd6', NULL, '2026-11-30 03:31:43.845+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_2941pdanwyhpa04y', 'req_10', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.change', 'updateSandbox', 'sbx_px7s03e9vwe3am7k', NULL, 'ok', '2026-11-30 03:31:44.31+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_48w64rkzpw3pj0xx', 'req_11', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_h2zsz7jk5jbhayrk', 'opn_dgpzg42mmkhme3ae', NULL, '2026-11-30 03:31:44.343+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_rgz52hd9gkv1wdw3', 'req_12', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_h2zsz7jk5jbhayrk', 'opn_y7q4w2xyb2tzpmca', NULL, '2026-11-30 03:31:44.575+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_jkb7gf5zwdega6hf', 'req_13', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_wqqj4k9751c48gwx', 'opn_5ve6ceeggpaa2y50', NULL, '2026-11-30 03:31:44.956+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_k1hnhf62fxseef7j', 'req_14', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_wqqj4k9751c48gwx', 'opn_cm2ywwbnq6zs4pc8', NULL, '2026-11-30 03:31:45.463+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_dgmq6aty78er1cst', 'req_15', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.delete', 'deleteSandbox', 'sbx_wqqj4k9751c48gwx', 'opn_gtdr5jawzh1cjnnr', NULL, '2026-11-30 03:31:45.577+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_0aa9se910zwrdyej', 'req_16', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', NULL, NULL, 'template_unknown', '2026-11-30 03:31:45.601+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_290cmva4trapjcpz', 'req_17', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'project.manage', 'createProject', 'prj_nwk3b1a0gthyvtpg', NULL, 'ok', '2026-11-30 03:31:45.61+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_vx4c98xz54hsnt4h', 'req_18', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'project.manage', 'updateProject', 'second', NULL, 'ok', '2026-11-30 03:31:45.638+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_j5gstpbqavd7xa9n', 'req_19', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'key.manage', 'createKey', 'key_vszc1tr0p040mvb1', NULL, 'ok', '2026-11-30 03:31:45.65+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_eb3ga4dvag443px4', 'req_20', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'key.manage', 'createKey', 'key_5k9r5bwt6gts1kse', NULL, 'ok', '2026-11-30 03:31:45.666+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_0cjz8hhszckre04e', 'req_21', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'key.manage', 'revokeKey', 'key_5k9r5bwt6gts1kse', NULL, 'ok', '2026-11-30 03:31:45.676+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_hn104mvn7sdhnfy5', 'req_22', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'organisation.manage', 'createOrganisation', 'org_hqr22xmedv8bpmjf', NULL, 'ok', '2026-11-30 03:31:45.682+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_ra5emmkhg1765xaq', 'req_23', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'organisation.manage', 'setLimits', 'org_hqr22xmedv8bpmjf', NULL, 'ok', '2026-11-30 03:31:45.686+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_jmk1d3q6jp16fxg2', 'req_24', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_nwk3b1a0gthyvtpg', 'sandbox.create', 'createSandbox', 'sbx_cpbzrh53b60efhyv', 'opn_kg2c6qz4hym92c0w', NULL, '2026-11-30 03:31:45.687+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_3n5t59rr61qcndv0', 'req_25', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'project.manage', 'createProject', 'prj_c507kzncaw307vby', NULL, 'ok', '2026-11-30 03:31:45.706+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_d53j2zfk9vepgmnr', 'req_26', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', NULL, 'project.manage', 'deleteProject', 'third', NULL, 'ok', '2026-11-30 03:31:45.771+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_jz0jwxcnkhezbbve', 'req_27', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'schedule.manage', 'createSchedule', 'sbx_px7s03e9vwe3am7k', NULL, 'ok', '2026-11-30 03:31:46.151+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_x379pt7et0e3yqm8', 'req_28', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'schedule.manage', 'createSchedule', 'sbx_px7s03e9vwe3am7k', NULL, 'ok', '2026-11-30 03:31:46.298+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_fz7x2vtz4kj6xhbj', 'req_55', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'schedule.manage', 'updateSchedule', 'sbx_px7s03e9vwe3am7k', NULL, 'ok', '2026-11-30 03:32:00.835+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_k2w601bs6m4tx12m', 'req_56', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'share.manage', 'createShare', 'sbx_px7s03e9vwe3am7k', NULL, 'ok', '2026-11-30 03:32:00.919+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_dtm9gghgbb0sy19c', 'req_57', 'key_ra6wp7wjdggnst9k', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'startProcess', 'sbx_px7s03e9vwe3am7k', NULL, 'ok', '2026-11-30 03:32:00.986+00');


--
-- Data for Name: calls; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.calls (api_key_id, idempotency_key, route, digest, request_id, owner, answer, at) VALUES ('key_ra6wp7wjdggnst9k', 'make-one', 'createSandbox', '2fe32b1350674a8c9181b799f690846199a905c56a5d36dc61e58fc99eab34bc', 'req_1', '639ba5d857dc01285b3c873424e7fc50', '{"result":{"id":"sbx_f5jg96e5t0z6kmwc","name":"one","status":"running","template":"base","size":{"vcpus":1,"diskMib":8192,"memoryMib":256},"generation":1,"head":null,"forkedFrom":null,"metadata":{"team":"blue"},"idle":{"pauseAfterMs":600000},"wakeAt":null,"snapshots":{"everyMs":null,"budgetMs":null,"retention":null},"createdAt":"2026-11-30T03:31:42.179Z","updatedAt":"2026-11-30T03:31:42.289Z","crash":null}}', '2026-11-30 03:31:42.165+00');


--
-- Data for Name: doomed_points; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: event_floor; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.event_floor (tx, number) VALUES (0, 0);


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (730, 1, 'sandbox.created', '2026-11-30 03:31:42.289+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (730, 2, 'sandbox.running', '2026-11-30 03:31:42.289+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (730, 3, 'operation.ended', '2026-11-30 03:31:42.289+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, 'opn_xy6928bbpx9cqrm2', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (734, 4, 'snapshot.taken', '2026-11-30 03:31:42.517+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', 'snp_qwrf8t30e4gwh99m', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (734, 5, 'operation.ended', '2026-11-30 03:31:42.517+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, 'opn_52586w40b7d1wnd5', NULL, 'snapshot', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (737, 6, 'snapshot.taken', '2026-11-30 03:31:42.807+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', 'snp_g2gpbjsc3p9nhbvs', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (737, 7, 'operation.ended', '2026-11-30 03:31:42.807+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, 'opn_1c5hpytpwm977235', NULL, 'snapshot', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (740, 8, 'snapshot.taken', '2026-11-30 03:31:43.07+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', 'snp_0qfm2qbdz5f9r5y6', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (740, 9, 'operation.ended', '2026-11-30 03:31:43.07+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, 'opn_x5n2x9fzzgg2sx27', NULL, 'rewind', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (742, 10, 'snapshot.taken', '2026-11-30 03:31:43.342+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', 'snp_t3bxd3hc8gx4jtne', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (742, 11, 'operation.ended', '2026-11-30 03:31:43.342+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, 'opn_c6zfcnkj58b59v3r', NULL, 'fork', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (744, 12, 'sandbox.created', '2026-11-30 03:31:43.642+00', NULL, 'prj_0000000000000000', 'sbx_px7s03e9vwe3am7k', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (744, 13, 'sandbox.running', '2026-11-30 03:31:43.642+00', NULL, 'prj_0000000000000000', 'sbx_px7s03e9vwe3am7k', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (744, 14, 'operation.ended', '2026-11-30 03:31:43.642+00', NULL, 'prj_0000000000000000', 'sbx_px7s03e9vwe3am7k', NULL, 'opn_vrvg5whtr5ye5hym', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (746, 15, 'snapshot.taken', '2026-11-30 03:31:44.078+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', 'snp_2kvv1z8a7htbsd3e', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (746, 16, 'sandbox.paused', '2026-11-30 03:31:44.078+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (746, 17, 'operation.ended', '2026-11-30 03:31:44.078+00', NULL, 'prj_0000000000000000', 'sbx_f5jg96e5t0z6kmwc', NULL, 'opn_mra9d602kzf4zpd6', NULL, 'pause', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (750, 18, 'sandbox.created', '2026-11-30 03:31:44.451+00', NULL, 'prj_0000000000000000', 'sbx_h2zsz7jk5jbhayrk', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (750, 19, 'sandbox.running', '2026-11-30 03:31:44.451+00', NULL, 'prj_0000000000000000', 'sbx_h2zsz7jk5jbhayrk', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (750, 20, 'operation.ended', '2026-11-30 03:31:44.451+00', NULL, 'prj_0000000000000000', 'sbx_h2zsz7jk5jbhayrk', NULL, 'opn_dgpzg42mmkhme3ae', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (752, 21, 'snapshot.taken', '2026-11-30 03:31:44.61+00', NULL, 'prj_0000000000000000', 'sbx_h2zsz7jk5jbhayrk', 'snp_6gt6kxehjq6mfvp9', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (752, 22, 'operation.ended', '2026-11-30 03:31:44.61+00', NULL, 'prj_0000000000000000', 'sbx_h2zsz7jk5jbhayrk', NULL, 'opn_y7q4w2xyb2tzpmca', NULL, 'snapshot', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (753, 23, 'sandbox.crashed', '2026-11-30 03:31:44.688+00', NULL, 'prj_0000000000000000', 'sbx_h2zsz7jk5jbhayrk', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (755, 24, 'sandbox.created', '2026-11-30 03:31:45.299+00', NULL, 'prj_0000000000000000', 'sbx_wqqj4k9751c48gwx', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (755, 25, 'sandbox.running', '2026-11-30 03:31:45.299+00', NULL, 'prj_0000000000000000', 'sbx_wqqj4k9751c48gwx', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (755, 26, 'operation.ended', '2026-11-30 03:31:45.299+00', NULL, 'prj_0000000000000000', 'sbx_wqqj4k9751c48gwx', NULL, 'opn_5ve6ceeggpaa2y50', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (757, 27, 'snapshot.taken', '2026-11-30 03:31:45.521+00', NULL, 'prj_0000000000000000', 'sbx_wqqj4k9751c48gwx', 'snp_hyq1pwp0p2fyskyd', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (757, 28, 'operation.ended', '2026-11-30 03:31:45.521+00', NULL, 'prj_0000000000000000', 'sbx_wqqj4k9751c48gwx', NULL, 'opn_cm2ywwbnq6zs4pc8', NULL, 'snapshot', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (759, 29, 'sandbox.deleted', '2026-11-30 03:31:45.59+00', NULL, 'prj_0000000000000000', 'sbx_wqqj4k9751c48gwx', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (759, 30, 'operation.ended', '2026-11-30 03:31:45.59+00', NULL, 'prj_0000000000000000', 'sbx_wqqj4k9751c48gwx', NULL, 'opn_gtdr5jawzh1cjnnr', NULL, 'delete', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (769, 31, 'key.revoked', '2026-11-30 03:31:45.67+00', 'org_0000000000000000', NULL, NULL, NULL, NULL, 'key_5k9r5bwt6gts1kse', NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (776, 32, 'sandbox.created', '2026-11-30 03:31:45.697+00', NULL, 'prj_nwk3b1a0gthyvtpg', 'sbx_cpbzrh53b60efhyv', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (776, 33, 'sandbox.running', '2026-11-30 03:31:45.697+00', NULL, 'prj_nwk3b1a0gthyvtpg', 'sbx_cpbzrh53b60efhyv', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (776, 34, 'operation.ended', '2026-11-30 03:31:45.697+00', NULL, 'prj_nwk3b1a0gthyvtpg', 'sbx_cpbzrh53b60efhyv', NULL, 'opn_kg2c6qz4hym92c0w', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (790, 35, 'share.created', '2026-11-30 03:32:00.859+00', NULL, 'prj_0000000000000000', 'sbx_px7s03e9vwe3am7k', NULL, NULL, NULL, NULL, NULL, NULL, 'shr_y6a325pyds7e428f');


--
-- Data for Name: sandboxes; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_wqqj4k9751c48gwx', 'gone', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'deleted', NULL, NULL, 3, 1, 'snp_hyq1pwp0p2fyskyd', NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:31:44.956+00', '2026-11-30 03:31:45.59+00', 'prj_0000000000000000', 600000, NULL, '{}', '{}');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_cpbzrh53b60efhyv', 'elsewhere', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'running', NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:31:45.687+00', '2026-11-30 03:31:45.697+00', 'prj_nwk3b1a0gthyvtpg', 600000, NULL, '{}', '{}');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_f5jg96e5t0z6kmwc', 'one', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', '{"GREETING": "grüße"}', '{"team": "blue"}', 'paused', NULL, NULL, 6, 2, 'snp_2kvv1z8a7htbsd3e', NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:31:42.179+00', '2026-11-30 03:31:44.078+00', 'prj_0000000000000000', 600000, NULL, '{}', '{}');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_px7s03e9vwe3am7k', NULL, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', '{"GREETING": "grüße"}', '{"team": "blue"}', 'running', NULL, NULL, 1, 1, 'snp_t3bxd3hc8gx4jtne', 'sbx_f5jg96e5t0z6kmwc', 'snp_t3bxd3hc8gx4jtne', 'snp_t3bxd3hc8gx4jtne', NULL, NULL, '2026-11-30 03:31:43.534+00', '2026-11-30 03:31:44.199+00', 'prj_0000000000000000', NULL, '2031-01-01 08:00:00+00', '{prc_bzj0n2fw3k871mmq}', '{"everyMs": 30000, "retention": [{"forMs": 3600000, "everyMs": 0}]}');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_h2zsz7jk5jbhayrk', 'crashed', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'crashed', NULL, NULL, 2, 1, 'snp_6gt6kxehjq6mfvp9', NULL, NULL, NULL, 'the VM process was killed', '2026-11-30 03:31:44.654+00', '2026-11-30 03:31:44.343+00', '2026-11-30 03:31:44.688+00', 'prj_0000000000000000', 600000, NULL, '{}', '{}');


--
-- Data for Name: operations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_xy6928bbpx9cqrm2', 'sbx_f5jg96e5t0z6kmwc', 'create', 1, '{}', '2026-11-30 03:31:42.179+00', '2026-11-30 03:31:42.289+00', 'ok', NULL, 'req_1', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_52586w40b7d1wnd5', 'sbx_f5jg96e5t0z6kmwc', 'snapshot', 2, '{"takes": "snp_qwrf8t30e4gwh99m"}', '2026-11-30 03:31:42.443+00', '2026-11-30 03:31:42.517+00', 'ok', NULL, 'req_3', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_1c5hpytpwm977235', 'sbx_f5jg96e5t0z6kmwc', 'snapshot', 3, '{"takes": "snp_g2gpbjsc3p9nhbvs"}', '2026-11-30 03:31:42.748+00', '2026-11-30 03:31:42.807+00', 'ok', NULL, 'req_5', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_x5n2x9fzzgg2sx27', 'sbx_f5jg96e5t0z6kmwc', 'rewind', 4, '{"from": "snp_qwrf8t30e4gwh99m", "takes": "snp_0qfm2qbdz5f9r5y6", "generation": 2}', '2026-11-30 03:31:43.016+00', '2026-11-30 03:31:43.07+00', 'ok', NULL, 'req_7', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_c6zfcnkj58b59v3r', 'sbx_f5jg96e5t0z6kmwc', 'fork', 5, '{"takes": "snp_t3bxd3hc8gx4jtne"}', '2026-11-30 03:31:43.283+00', '2026-11-30 03:31:43.342+00', 'ok', NULL, 'req_8', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_vrvg5whtr5ye5hym', 'sbx_px7s03e9vwe3am7k', 'create', 1, '{"from": "snp_t3bxd3hc8gx4jtne"}', '2026-11-30 03:31:43.534+00', '2026-11-30 03:31:43.642+00', 'ok', NULL, 'req_8', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_mra9d602kzf4zpd6', 'sbx_f5jg96e5t0z6kmwc', 'pause', 6, '{"takes": "snp_2kvv1z8a7htbsd3e"}', '2026-11-30 03:31:43.845+00', '2026-11-30 03:31:44.078+00', 'ok', NULL, 'req_9', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_dgpzg42mmkhme3ae', 'sbx_h2zsz7jk5jbhayrk', 'create', 1, '{}', '2026-11-30 03:31:44.343+00', '2026-11-30 03:31:44.451+00', 'ok', NULL, 'req_11', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_y7q4w2xyb2tzpmca', 'sbx_h2zsz7jk5jbhayrk', 'snapshot', 2, '{"takes": "snp_6gt6kxehjq6mfvp9"}', '2026-11-30 03:31:44.575+00', '2026-11-30 03:31:44.61+00', 'ok', NULL, 'req_12', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_5ve6ceeggpaa2y50', 'sbx_wqqj4k9751c48gwx', 'create', 1, '{}', '2026-11-30 03:31:44.956+00', '2026-11-30 03:31:45.299+00', 'ok', NULL, 'req_13', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_cm2ywwbnq6zs4pc8', 'sbx_wqqj4k9751c48gwx', 'snapshot', 2, '{"takes": "snp_hyq1pwp0p2fyskyd"}', '2026-11-30 03:31:45.463+00', '2026-11-30 03:31:45.521+00', 'ok', NULL, 'req_14', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_gtdr5jawzh1cjnnr', 'sbx_wqqj4k9751c48gwx', 'delete', 3, '{}', '2026-11-30 03:31:45.577+00', '2026-11-30 03:31:45.59+00', 'ok', NULL, 'req_15', 'key_ra6wp7wjdggnst9k', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_kg2c6qz4hym92c0w', 'sbx_cpbzrh53b60efhyv', 'create', 1, '{}', '2026-11-30 03:31:45.687+00', '2026-11-30 03:31:45.697+00', 'ok', NULL, 'req_24', 'key_ra6wp7wjdggnst9k', 'prj_nwk3b1a0gthyvtpg', '{"readyMs": 2, "runningMs": 1}');


--
-- Data for Name: schedules; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.schedules (id, project_id, sandbox_id, cron, time_zone, exec, catch_up, enabled, next_run_at, created_at, updated_at) VALUES ('sch_d8m0pycarmnkz650', 'prj_0000000000000000', 'sbx_px7s03e9vwe3am7k', '0 8 * * MON-FRI', 'Europe/Berlin', '{"command": "./report.sh", "timeoutMs": 60000}', 'skip', true, '2026-11-30 07:00:00+00', '2026-11-30 03:31:45.859+00', '2026-11-30 03:31:45.859+00');
INSERT INTO public.schedules (id, project_id, sandbox_id, cron, time_zone, exec, catch_up, enabled, next_run_at, created_at, updated_at) VALUES ('sch_y5cyzdg6g9wt67e7', 'prj_0000000000000000', 'sbx_px7s03e9vwe3am7k', '* * * * *', 'UTC', '{"argv": ["read"]}', 'once', false, NULL, '2026-11-30 03:31:46.235+00', '2026-11-30 03:32:00.805+00');


--
-- Data for Name: schedule_runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.schedule_runs (id, schedule_id, sandbox_id, due_at, claimed_at, process_id, started_at, ended_at, outcome, process_end, error_code) VALUES ('run_m89q41mh9m8z3dt7', 'sch_y5cyzdg6g9wt67e7', 'sbx_px7s03e9vwe3am7k', '2026-11-30 03:32:00+00', '2026-11-30 03:32:00.382+00', 'prc_r2mg9wq563c29shk', '2026-11-30 03:32:00.469+00', '2026-11-30 03:32:00.497+00', 'succeeded', '{"oom": false, "exit": {"code": 0}, "timedOut": false}', NULL);


--
-- Data for Name: shares; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.shares (id, project_id, sandbox_id, port, name, sha256, created_by, created_at, expires_at) VALUES ('shr_y6a325pyds7e428f', 'prj_0000000000000000', 'sbx_px7s03e9vwe3am7k', 8000, 'demo', '\x1d27e42c2aae7961489646b72d1ed4c61cc628663b748b4ba9e6d3f886044670', 'key_ra6wp7wjdggnst9k', '2026-11-30 03:32:00.859+00', '2026-11-30 04:32:00.859+00');


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed) VALUES ('snp_qwrf8t30e4gwh99m', 'sbx_f5jg96e5t0z6kmwc', 'before', 'a note', 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:42.51+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', true, 0, '{"diskBytes": 0, "memoryBytes": 0}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed) VALUES ('snp_g2gpbjsc3p9nhbvs', 'sbx_f5jg96e5t0z6kmwc', NULL, NULL, 'snapshot', 'snp_qwrf8t30e4gwh99m', 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:42.802+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', true, 224, '{"diskBytes": 0, "memoryBytes": 0}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed) VALUES ('snp_0qfm2qbdz5f9r5y6', 'sbx_f5jg96e5t0z6kmwc', NULL, NULL, 'rewind', 'snp_g2gpbjsc3p9nhbvs', 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:43.056+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', false, 401, '{"diskBytes": 0, "memoryBytes": 0}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed) VALUES ('snp_t3bxd3hc8gx4jtne', 'sbx_f5jg96e5t0z6kmwc', NULL, NULL, 'fork', 'snp_qwrf8t30e4gwh99m', 2, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:43.336+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', false, 621, '{"diskBytes": 0, "memoryBytes": 0}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed) VALUES ('snp_2kvv1z8a7htbsd3e', 'sbx_f5jg96e5t0z6kmwc', NULL, NULL, 'pause', 'snp_t3bxd3hc8gx4jtne', 2, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:31:44.062+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', false, 1106, '{"diskBytes": 0, "memoryBytes": 0}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed) VALUES ('snp_6gt6kxehjq6mfvp9', 'sbx_h2zsz7jk5jbhayrk', NULL, NULL, 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', 'good', NULL, '2026-11-30 03:31:44.602+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', true, 0, '{"diskBytes": 0, "memoryBytes": 0}');
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed) VALUES ('snp_hyq1pwp0p2fyskyd', 'sbx_wqqj4k9751c48gwx', 'outlives', NULL, 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', 'good', NULL, '2026-11-30 03:31:45.514+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', true, 0, '{"diskBytes": 0, "memoryBytes": 0}');


--
-- Name: events_number_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_number_seq', 35, true);


--
-- Name: projects_ordinal_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.projects_ordinal_seq', 4, true);


--
-- PostgreSQL database dump complete
--

\unrestrict DqbiWPMXe6wlcp26DJ493UGSLQdo0nSe6lB5qLgPasBLK9ZAjbAh42eUMvFGoYk

