--
-- PostgreSQL database dump
--

\restrict XhxSfAeTdwoLPobW5YYXnobnOCIsbJ2ddoa5faeka8lkjOXyrcloCfWEjBwm8Lw

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

INSERT INTO public.organisations (id, name, operator, created_at, max_sandboxes, max_running, max_snapshots, max_memory_mib) VALUES ('org_0000000000000000', 'default', true, '2026-11-30 03:38:47.339+00', NULL, NULL, NULL, NULL);
INSERT INTO public.organisations (id, name, operator, created_at, max_sandboxes, max_running, max_snapshots, max_memory_mib) VALUES ('org_3snvct5jrytng5cb', 'acme', false, '2026-11-30 03:38:51.724+00', 10, NULL, NULL, 4096);


--
-- Data for Name: projects; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal, snapshot_policy, deleted_at) OVERRIDING SYSTEM VALUE VALUES ('prj_0000000000000000', 'org_0000000000000000', 'default', '2026-11-30 03:38:47.339+00', 1, '{}', NULL);
INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal, snapshot_policy, deleted_at) OVERRIDING SYSTEM VALUE VALUES ('prj_2t9d6hywwvfn4j5q', 'org_0000000000000000', 'second', '2026-11-30 03:38:51.047+00', 2, '{"everyMs": "off"}', NULL);
INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal, snapshot_policy, deleted_at) OVERRIDING SYSTEM VALUE VALUES ('prj_1h0xrsjsqg9g5d76', 'org_0000000000000000', 'third', '2026-11-30 03:38:51.532+00', 3, '{}', '2026-11-30 03:38:51.584+00');
INSERT INTO public.projects (id, organisation_id, name, created_at, ordinal, snapshot_policy, deleted_at) OVERRIDING SYSTEM VALUE VALUES ('prj_77vsnb12x5thqzy5', 'org_3snvct5jrytng5cb', 'default', '2026-11-30 03:38:51.724+00', 4, '{}', NULL);


--
-- Data for Name: api_keys; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_29gt84c4nk1rdqf0', 'space_PwaJ', '\x02eca35e532e68f3110dbc7dc2d8055f01a2c6bc7e9cc07877c60bc15c40a24e', '2026-11-30 03:38:48.245+00', 'org_0000000000000000', NULL, NULL, '{admin}', NULL);
INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_849n6vhmt6seb22a', 'space_kAkw', '\x0345093bc6d8ddbea389c4a7ea760e49ad3885020c590e25f69293b9bca21646', '2026-11-30 03:38:51.333+00', 'org_0000000000000000', 'prj_2t9d6hywwvfn4j5q', 'ci', '{developer,viewer}', NULL);
INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_3hc5nve9rbms36w3', 'space_OFBz', '\x09b3ef2c342665e91941901284058d0305b9bf4d003818ab6b01d2f0c34b7c70', '2026-11-30 03:38:51.376+00', 'org_0000000000000000', NULL, NULL, '{auditor}', '2026-11-30 03:38:51.427+00');
INSERT INTO public.api_keys (id, prefix, sha256, created_at, organisation_id, project_id, name, roles, revoked_at) VALUES ('key_b7yvxdx7zyxq46ms', 'space_RypB', '\x1566f765a1619f85cd83876fb2318fbcadce54648d7fc80911611d5a6dec8dc3', '2026-11-30 03:38:51.724+00', 'org_3snvct5jrytng5cb', NULL, NULL, '{admin}', NULL);


--
-- Data for Name: audit; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_e6c4ypatde1mg2k9', 'req_1', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_9fs88s9054ycfdby', 'opn_64b4wm908cdwa2a5', NULL, '2026-11-30 03:38:48.257+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_zwnypcxv1xcq7bzh', 'req_2', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_9fs88s9054ycfdby', NULL, 'ok', '2026-11-30 03:38:48.407+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_j7a3akr8nqtzeqw6', 'req_3', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_9fs88s9054ycfdby', 'opn_pc64c0b3cq8ntkfq', NULL, '2026-11-30 03:38:48.512+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_efhnq49jgjzvckza', 'req_4', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_9fs88s9054ycfdby', NULL, 'ok', '2026-11-30 03:38:48.755+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_qcwsvbwrv0tgw5k7', 'req_5', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_9fs88s9054ycfdby', 'opn_9h1x8k7b17nvecx7', NULL, '2026-11-30 03:38:48.784+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_6gxs0rcgq9b5rdg3', 'req_6', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.use', 'exec', 'sbx_9fs88s9054ycfdby', NULL, 'ok', '2026-11-30 03:38:49.022+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_epwb6qmhy6gyr06c', 'req_7', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.change', 'rewindSandbox', 'sbx_9fs88s9054ycfdby', 'opn_9szwxe3jpx4ez6w3', NULL, '2026-11-30 03:38:49.08+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_1zcxywfty54ry7vb', 'req_8', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'forkSandbox', 'sbx_9fs88s9054ycfdby', 'opn_y9rjr62pzvyp9trd', NULL, '2026-11-30 03:38:49.365+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_b2z85j1w104tmz2a', 'req_9', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.change', 'pauseSandbox', 'sbx_9fs88s9054ycfdby', 'opn_bpatjwenwxpqtamr', NULL, '2026-11-30 03:38:49.69+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_3d6kc36fs95nw5ae', 'req_10', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.change', 'updateSandbox', 'sbx_kxs090vn1r17ew5b', NULL, 'ok', '2026-11-30 03:38:49.896+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_v31767h5waqsrv46', 'req_11', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_53f40gcc5h05x0gx', 'opn_2rmvjjdhaat30afv', NULL, '2026-11-30 03:38:49.971+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_q39frvy5d2hcqyhs', 'req_12', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_53f40gcc5h05x0gx', 'opn_736kn6jfk2d2k91g', NULL, '2026-11-30 03:38:50.175+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_qbs8aec2ms534k9s', 'req_13', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', 'sbx_a1n5gvsz2fsmf7af', 'opn_65grmfekm38f760w', NULL, '2026-11-30 03:38:50.372+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_3w9760dqwdcjg4k1', 'req_14', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'snapshot.take', 'takeSnapshot', 'sbx_a1n5gvsz2fsmf7af', 'opn_k76431gjr69q364n', NULL, '2026-11-30 03:38:50.576+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_059ct5a3fbnhe230', 'req_15', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.delete', 'deleteSandbox', 'sbx_a1n5gvsz2fsmf7af', 'opn_nc54pck4w75g574c', NULL, '2026-11-30 03:38:50.773+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_93stwffkbwqmj6xp', 'req_16', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'sandbox.create', 'createSandbox', NULL, NULL, 'template_unknown', '2026-11-30 03:38:51.016+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_80kmc8wn05b0r27g', 'req_17', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'project.manage', 'createProject', 'prj_2t9d6hywwvfn4j5q', NULL, 'ok', '2026-11-30 03:38:51.036+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_nry20z2yeg47ze75', 'req_18', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'project.manage', 'updateProject', 'second', NULL, 'ok', '2026-11-30 03:38:51.111+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_edb96w8es3prpq16', 'req_19', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_2t9d6hywwvfn4j5q', 'sandbox.create', 'createSandbox', 'sbx_93knavrzbmwdrtyk', 'opn_syb969srna4x6cjx', NULL, '2026-11-30 03:38:51.172+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_wtv0snzwg9kstsen', 'req_20', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'key.manage', 'createKey', 'key_849n6vhmt6seb22a', NULL, 'ok', '2026-11-30 03:38:51.327+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_bjh9e88v036vh82z', 'req_21', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'key.manage', 'createKey', 'key_3hc5nve9rbms36w3', NULL, 'ok', '2026-11-30 03:38:51.359+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_qsdft6k3dpsttvas', 'req_22', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'key.manage', 'revokeKey', 'key_3hc5nve9rbms36w3', NULL, 'ok', '2026-11-30 03:38:51.42+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_kmksx5rtrjp0bavf', 'req_23', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'project.manage', 'createProject', 'prj_1h0xrsjsqg9g5d76', NULL, 'ok', '2026-11-30 03:38:51.532+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_bmn2gqrhzy18k5y4', 'req_24', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'project.manage', 'deleteProject', 'third', NULL, 'ok', '2026-11-30 03:38:51.564+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_azame5420n1bzbww', 'req_25', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'organisation.manage', 'createOrganisation', 'org_3snvct5jrytng5cb', NULL, 'ok', '2026-11-30 03:38:51.718+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_6jd5w9cd1f22ye33', 'req_26', 'key_4a1j10xrabc80t04', 'org_0000000000000000', NULL, 'organisation.manage', 'setLimits', 'org_3snvct5jrytng5cb', NULL, 'ok', '2026-11-30 03:38:51.806+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_5fx7gcaddc79syyp', 'req_27', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'schedule.manage', 'createSchedule', 'sbx_kxs090vn1r17ew5b', NULL, 'ok', '2026-11-30 03:38:51.899+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_pfamp3n1hqg22qd9', 'req_28', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'schedule.manage', 'createSchedule', 'sbx_kxs090vn1r17ew5b', NULL, 'ok', '2026-11-30 03:38:52.253+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_f48p5av3t0xtsnm0', 'req_44', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'schedule.manage', 'updateSchedule', 'sbx_kxs090vn1r17ew5b', NULL, 'ok', '2026-11-30 03:39:00.402+00');
INSERT INTO public.audit (id, request_id, api_key_id, organisation_id, project_id, action, call, target, operation_id, outcome, at) VALUES ('aud_hpz9dg998cd3zhd4', 'req_45', 'key_4a1j10xrabc80t04', 'org_0000000000000000', 'prj_0000000000000000', 'share.manage', 'createShare', 'sbx_kxs090vn1r17ew5b', NULL, 'ok', '2026-11-30 03:39:00.469+00');


--
-- Data for Name: calls; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.calls (api_key_id, idempotency_key, route, digest, request_id, owner, answer, at) VALUES ('key_4a1j10xrabc80t04', 'make-main', 'createSandbox', '9196e5624d7d1f49ea7885e756c8957ba5663d66293d3f8c0764c15d95042957', 'req_1', 'f5723a194750b903674466dcc0a00eb0', '{"result":{"id":"sbx_9fs88s9054ycfdby","name":"main","status":"running","template":"base","size":{"vcpus":1,"diskMib":8192,"memoryMib":256},"generation":1,"head":null,"forkedFrom":null,"metadata":{"team":"blue"},"idle":{"pauseAfterMs":600000},"wakeAt":null,"snapshots":{"everyMs":null,"budgetMs":null,"retention":null},"createdAt":"2026-11-30T03:38:48.277Z","updatedAt":"2026-11-30T03:38:48.351Z","crash":null}}', '2026-11-30 03:38:48.264+00');


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

INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (732, 1, 'sandbox.created', '2026-11-30 03:38:48.351+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (732, 2, 'sandbox.running', '2026-11-30 03:38:48.351+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (732, 3, 'operation.ended', '2026-11-30 03:38:48.351+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, 'opn_64b4wm908cdwa2a5', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (738, 4, 'snapshot.taken', '2026-11-30 03:38:48.68+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', 'snp_dfh7ry32jwphjnar', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (738, 5, 'operation.ended', '2026-11-30 03:38:48.68+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, 'opn_pc64c0b3cq8ntkfq', NULL, 'snapshot', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (743, 6, 'snapshot.taken', '2026-11-30 03:38:48.961+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', 'snp_6nmh1058j5ck886p', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (743, 7, 'operation.ended', '2026-11-30 03:38:48.961+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, 'opn_9h1x8k7b17nvecx7', NULL, 'snapshot', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (748, 8, 'snapshot.taken', '2026-11-30 03:38:49.251+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', 'snp_3w96sp8a5hjphkmh', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (748, 9, 'operation.ended', '2026-11-30 03:38:49.251+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, 'opn_9szwxe3jpx4ez6w3', NULL, 'rewind', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (751, 10, 'snapshot.taken', '2026-11-30 03:38:49.501+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', 'snp_apew9r7pj2wznkr3', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (751, 11, 'operation.ended', '2026-11-30 03:38:49.501+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, 'opn_y9rjr62pzvyp9trd', NULL, 'fork', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (753, 12, 'sandbox.created', '2026-11-30 03:38:49.647+00', NULL, 'prj_0000000000000000', 'sbx_kxs090vn1r17ew5b', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (753, 13, 'sandbox.running', '2026-11-30 03:38:49.647+00', NULL, 'prj_0000000000000000', 'sbx_kxs090vn1r17ew5b', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (753, 14, 'operation.ended', '2026-11-30 03:38:49.647+00', NULL, 'prj_0000000000000000', 'sbx_kxs090vn1r17ew5b', NULL, 'opn_4xk1e97xffjexrcc', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (756, 15, 'snapshot.taken', '2026-11-30 03:38:49.791+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', 'snp_zpewk2v769rvh18y', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (756, 16, 'sandbox.paused', '2026-11-30 03:38:49.791+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (756, 17, 'operation.ended', '2026-11-30 03:38:49.791+00', NULL, 'prj_0000000000000000', 'sbx_9fs88s9054ycfdby', NULL, 'opn_bpatjwenwxpqtamr', NULL, 'pause', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (762, 18, 'sandbox.created', '2026-11-30 03:38:50.099+00', NULL, 'prj_0000000000000000', 'sbx_53f40gcc5h05x0gx', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (762, 19, 'sandbox.running', '2026-11-30 03:38:50.099+00', NULL, 'prj_0000000000000000', 'sbx_53f40gcc5h05x0gx', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (762, 20, 'operation.ended', '2026-11-30 03:38:50.099+00', NULL, 'prj_0000000000000000', 'sbx_53f40gcc5h05x0gx', NULL, 'opn_2rmvjjdhaat30afv', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (765, 21, 'snapshot.taken', '2026-11-30 03:38:50.359+00', NULL, 'prj_0000000000000000', 'sbx_53f40gcc5h05x0gx', 'snp_97wc83y3ggm6x8mr', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (765, 22, 'operation.ended', '2026-11-30 03:38:50.359+00', NULL, 'prj_0000000000000000', 'sbx_53f40gcc5h05x0gx', NULL, 'opn_736kn6jfk2d2k91g', NULL, 'snapshot', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (768, 23, 'sandbox.crashed', '2026-11-30 03:38:50.381+00', NULL, 'prj_0000000000000000', 'sbx_53f40gcc5h05x0gx', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (769, 24, 'sandbox.created', '2026-11-30 03:38:50.505+00', NULL, 'prj_0000000000000000', 'sbx_a1n5gvsz2fsmf7af', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (769, 25, 'sandbox.running', '2026-11-30 03:38:50.505+00', NULL, 'prj_0000000000000000', 'sbx_a1n5gvsz2fsmf7af', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (769, 26, 'operation.ended', '2026-11-30 03:38:50.505+00', NULL, 'prj_0000000000000000', 'sbx_a1n5gvsz2fsmf7af', NULL, 'opn_65grmfekm38f760w', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (772, 27, 'snapshot.taken', '2026-11-30 03:38:50.706+00', NULL, 'prj_0000000000000000', 'sbx_a1n5gvsz2fsmf7af', 'snp_57d7c7h6v5s8yke6', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (772, 28, 'operation.ended', '2026-11-30 03:38:50.706+00', NULL, 'prj_0000000000000000', 'sbx_a1n5gvsz2fsmf7af', NULL, 'opn_k76431gjr69q364n', NULL, 'snapshot', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (775, 29, 'sandbox.deleted', '2026-11-30 03:38:50.864+00', NULL, 'prj_0000000000000000', 'sbx_a1n5gvsz2fsmf7af', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (775, 30, 'operation.ended', '2026-11-30 03:38:50.864+00', NULL, 'prj_0000000000000000', 'sbx_a1n5gvsz2fsmf7af', NULL, 'opn_nc54pck4w75g574c', NULL, 'delete', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (786, 31, 'sandbox.created', '2026-11-30 03:38:51.269+00', NULL, 'prj_2t9d6hywwvfn4j5q', 'sbx_93knavrzbmwdrtyk', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (786, 32, 'sandbox.running', '2026-11-30 03:38:51.269+00', NULL, 'prj_2t9d6hywwvfn4j5q', 'sbx_93knavrzbmwdrtyk', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (786, 33, 'operation.ended', '2026-11-30 03:38:51.269+00', NULL, 'prj_2t9d6hywwvfn4j5q', 'sbx_93knavrzbmwdrtyk', NULL, 'opn_syb969srna4x6cjx', NULL, 'create', 'ok', NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (794, 34, 'key.revoked', '2026-11-30 03:38:51.427+00', 'org_0000000000000000', NULL, NULL, NULL, NULL, 'key_3hc5nve9rbms36w3', NULL, NULL, NULL, NULL);
INSERT INTO public.events (tx, number, kind, at, organisation_id, project_id, sandbox_id, snapshot_id, operation_id, api_key_id, operation, outcome, error_code, share_id) OVERRIDING SYSTEM VALUE VALUES (821, 35, 'share.created', '2026-11-30 03:39:00.479+00', NULL, 'prj_0000000000000000', 'sbx_kxs090vn1r17ew5b', NULL, NULL, NULL, NULL, NULL, NULL, 'shr_6y41g9g7xss4c62n');


--
-- Data for Name: sandboxes; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_a1n5gvsz2fsmf7af', 'gone', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'deleted', NULL, NULL, 3, 1, 'snp_57d7c7h6v5s8yke6', NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:38:50.373+00', '2026-11-30 03:38:50.864+00', 'prj_0000000000000000', 600000, NULL, '{}', '{}');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_93knavrzbmwdrtyk', 'elsewhere', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'running', NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:38:51.174+00', '2026-11-30 03:38:51.269+00', 'prj_2t9d6hywwvfn4j5q', 600000, NULL, '{}', '{}');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_9fs88s9054ycfdby', 'main', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', '{"GREETING": "grüße"}', '{"team": "blue"}', 'paused', NULL, NULL, 6, 2, 'snp_zpewk2v769rvh18y', NULL, NULL, NULL, NULL, NULL, '2026-11-30 03:38:48.277+00', '2026-11-30 03:38:49.791+00', 'prj_0000000000000000', 600000, NULL, '{}', '{}');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_kxs090vn1r17ew5b', NULL, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', '{"GREETING": "grüße"}', '{"team": "blue"}', 'running', NULL, NULL, 1, 1, 'snp_apew9r7pj2wznkr3', 'sbx_9fs88s9054ycfdby', 'snp_apew9r7pj2wznkr3', 'snp_apew9r7pj2wznkr3', NULL, NULL, '2026-11-30 03:38:49.604+00', '2026-11-30 03:38:49.937+00', 'prj_0000000000000000', NULL, '2031-01-01 08:00:00+00', '{}', '{"everyMs": 30000, "retention": [{"forMs": 3600000, "everyMs": 0}]}');
INSERT INTO public.sandboxes (id, name, template, size, vault, env, metadata, settled, operation, operation_id, epoch, generation, head, forked_from_sandbox, forked_from_snapshot, origin, crash_detail, crash_at, created_at, updated_at, project_id, pause_after_ms, wake_at, keepers, snapshot_policy) VALUES ('sbx_53f40gcc5h05x0gx', 'crashed', 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', '{}', '{}', 'crashed', NULL, NULL, 2, 1, 'snp_97wc83y3ggm6x8mr', NULL, NULL, NULL, 'the VM process was killed', '2026-11-30 03:38:50.375+00', '2026-11-30 03:38:49.988+00', '2026-11-30 03:38:50.381+00', 'prj_0000000000000000', 600000, NULL, '{}', '{}');


--
-- Data for Name: operations; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_64b4wm908cdwa2a5', 'sbx_9fs88s9054ycfdby', 'create', 1, '{}', '2026-11-30 03:38:48.277+00', '2026-11-30 03:38:48.351+00', 'ok', NULL, 'req_1', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_pc64c0b3cq8ntkfq', 'sbx_9fs88s9054ycfdby', 'snapshot', 2, '{"takes": "snp_dfh7ry32jwphjnar"}', '2026-11-30 03:38:48.603+00', '2026-11-30 03:38:48.68+00', 'ok', NULL, 'req_3', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_9h1x8k7b17nvecx7', 'sbx_9fs88s9054ycfdby', 'snapshot', 3, '{"takes": "snp_6nmh1058j5ck886p"}', '2026-11-30 03:38:48.843+00', '2026-11-30 03:38:48.961+00', 'ok', NULL, 'req_5', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_9szwxe3jpx4ez6w3', 'sbx_9fs88s9054ycfdby', 'rewind', 4, '{"from": "snp_dfh7ry32jwphjnar", "takes": "snp_3w96sp8a5hjphkmh", "generation": 2}', '2026-11-30 03:38:49.157+00', '2026-11-30 03:38:49.251+00', 'ok', NULL, 'req_7', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_y9rjr62pzvyp9trd', 'sbx_9fs88s9054ycfdby', 'fork', 5, '{"takes": "snp_apew9r7pj2wznkr3"}', '2026-11-30 03:38:49.43+00', '2026-11-30 03:38:49.501+00', 'ok', NULL, 'req_8', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_4xk1e97xffjexrcc', 'sbx_kxs090vn1r17ew5b', 'create', 1, '{"from": "snp_apew9r7pj2wznkr3"}', '2026-11-30 03:38:49.604+00', '2026-11-30 03:38:49.647+00', 'ok', NULL, 'req_8', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_bpatjwenwxpqtamr', 'sbx_9fs88s9054ycfdby', 'pause', 6, '{"takes": "snp_zpewk2v769rvh18y"}', '2026-11-30 03:38:49.733+00', '2026-11-30 03:38:49.791+00', 'ok', NULL, 'req_9', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_2rmvjjdhaat30afv', 'sbx_53f40gcc5h05x0gx', 'create', 1, '{}', '2026-11-30 03:38:49.988+00', '2026-11-30 03:38:50.099+00', 'ok', NULL, 'req_11', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_736kn6jfk2d2k91g', 'sbx_53f40gcc5h05x0gx', 'snapshot', 2, '{"takes": "snp_97wc83y3ggm6x8mr"}', '2026-11-30 03:38:50.276+00', '2026-11-30 03:38:50.359+00', 'ok', NULL, 'req_12', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_65grmfekm38f760w', 'sbx_a1n5gvsz2fsmf7af', 'create', 1, '{}', '2026-11-30 03:38:50.373+00', '2026-11-30 03:38:50.505+00', 'ok', NULL, 'req_13', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', '{"readyMs": 2, "runningMs": 1}');
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_k76431gjr69q364n', 'sbx_a1n5gvsz2fsmf7af', 'snapshot', 2, '{"takes": "snp_57d7c7h6v5s8yke6"}', '2026-11-30 03:38:50.664+00', '2026-11-30 03:38:50.706+00', 'ok', NULL, 'req_14', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_nc54pck4w75g574c', 'sbx_a1n5gvsz2fsmf7af', 'delete', 3, '{}', '2026-11-30 03:38:50.788+00', '2026-11-30 03:38:50.864+00', 'ok', NULL, 'req_15', 'key_4a1j10xrabc80t04', 'prj_0000000000000000', NULL);
INSERT INTO public.operations (id, sandbox_id, kind, epoch, input, started_at, ended_at, outcome, error_code, request_id, api_key_id, project_id, timings) VALUES ('opn_syb969srna4x6cjx', 'sbx_93knavrzbmwdrtyk', 'create', 1, '{}', '2026-11-30 03:38:51.174+00', '2026-11-30 03:38:51.269+00', 'ok', NULL, 'req_19', 'key_4a1j10xrabc80t04', 'prj_2t9d6hywwvfn4j5q', '{"readyMs": 2, "runningMs": 1}');


--
-- Data for Name: schedules; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.schedules (id, project_id, sandbox_id, cron, time_zone, exec, catch_up, enabled, next_run_at, created_at, updated_at) VALUES ('sch_1dae4rvkep8a4kwk', 'prj_0000000000000000', 'sbx_kxs090vn1r17ew5b', '0 8 * * MON-FRI', 'Europe/Berlin', '{"command": "./report.sh", "timeoutMs": 60000}', 'skip', true, '2026-11-30 07:00:00+00', '2026-11-30 03:38:51.911+00', '2026-11-30 03:38:51.911+00');
INSERT INTO public.schedules (id, project_id, sandbox_id, cron, time_zone, exec, catch_up, enabled, next_run_at, created_at, updated_at) VALUES ('sch_k34y0zvqvzkchx74', 'prj_0000000000000000', 'sbx_kxs090vn1r17ew5b', '* * * * *', 'Europe/Berlin', '{"argv": ["read"]}', 'once', false, NULL, '2026-11-30 03:38:52.286+00', '2026-11-30 03:39:00.424+00');


--
-- Data for Name: schedule_runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.schedule_runs (id, schedule_id, sandbox_id, due_at, claimed_at, process_id, started_at, ended_at, outcome, process_end, error_code) VALUES ('run_abt86cv6t2es22sz', 'sch_k34y0zvqvzkchx74', 'sbx_kxs090vn1r17ew5b', '2026-11-30 03:39:00+00', '2026-11-30 03:39:00.296+00', 'prc_dvyvj0pe6n5swkz9', '2026-11-30 03:39:00.319+00', '2026-11-30 03:39:00.331+00', 'succeeded', '{"oom": false, "exit": {"code": 0}, "timedOut": false}', NULL);


--
-- Data for Name: shares; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.shares (id, project_id, sandbox_id, port, name, sha256, created_by, created_at, expires_at) VALUES ('shr_6y41g9g7xss4c62n', 'prj_0000000000000000', 'sbx_kxs090vn1r17ew5b', 8000, 'demo', '\x5161ce8c817f5514d6797d9abb2789211a7ccfa9b19bcd5c8f992a62250a9b9c', 'key_4a1j10xrabc80t04', '2026-11-30 03:39:00.479+00', '2026-11-30 04:39:00.479+00');


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed, checked_at, kind, degraded) VALUES ('snp_dfh7ry32jwphjnar', 'sbx_9fs88s9054ycfdby', 'before', 'a note', 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:38:48.66+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', true, 0, '{"diskBytes": 0, "memoryBytes": 0}', NULL, 'memory', NULL);
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed, checked_at, kind, degraded) VALUES ('snp_6nmh1058j5ck886p', 'sbx_9fs88s9054ycfdby', NULL, NULL, 'snapshot', 'snp_dfh7ry32jwphjnar', 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:38:48.952+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', true, 180, '{"diskBytes": 0, "memoryBytes": 0}', NULL, 'memory', NULL);
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed, checked_at, kind, degraded) VALUES ('snp_3w96sp8a5hjphkmh', 'sbx_9fs88s9054ycfdby', NULL, NULL, 'rewind', 'snp_6nmh1058j5ck886p', 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:38:49.227+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', false, 369, '{"diskBytes": 0, "memoryBytes": 0}', NULL, 'memory', NULL);
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed, checked_at, kind, degraded) VALUES ('snp_apew9r7pj2wznkr3', 'sbx_9fs88s9054ycfdby', NULL, NULL, 'fork', 'snp_dfh7ry32jwphjnar', 2, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:38:49.498+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', false, 554, '{"diskBytes": 0, "memoryBytes": 0}', NULL, 'memory', NULL);
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed, checked_at, kind, degraded) VALUES ('snp_zpewk2v769rvh18y', 'sbx_9fs88s9054ycfdby', NULL, NULL, 'pause', 'snp_apew9r7pj2wznkr3', 2, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 256}', 'default', 'good', NULL, '2026-11-30 03:38:49.779+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', false, 781, '{"diskBytes": 0, "memoryBytes": 0}', NULL, 'memory', NULL);
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed, checked_at, kind, degraded) VALUES ('snp_97wc83y3ggm6x8mr', 'sbx_53f40gcc5h05x0gx', NULL, NULL, 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', 'good', NULL, '2026-11-30 03:38:50.359+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', true, 0, '{"diskBytes": 0, "memoryBytes": 0}', NULL, 'memory', NULL);
INSERT INTO public.snapshots (id, sandbox_id, name, note, cause, parent, generation, template, size, vault, state, bad_reason, taken_at, timings, project_id, pinned, time_ms, changed, checked_at, kind, degraded) VALUES ('snp_57d7c7h6v5s8yke6', 'sbx_a1n5gvsz2fsmf7af', 'outlives', NULL, 'snapshot', NULL, 1, 'base', '{"vcpus": 1, "diskMib": 8192, "memoryMib": 512}', 'default', 'good', NULL, '2026-11-30 03:38:50.702+00', '{"totalMs": 3, "frozenMs": 2.1, "stoppedMs": 1}', 'prj_0000000000000000', true, 0, '{"diskBytes": 0, "memoryBytes": 0}', NULL, 'memory', NULL);


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

\unrestrict XhxSfAeTdwoLPobW5YYXnobnOCIsbJ2ddoa5faeka8lkjOXyrcloCfWEjBwm8Lw

