/** The use-cases on tenants, of a fake that has none: whoever calls may not. They are tested with the real control. */
import { AppError } from '@space/core';

export class NoTenants {
  listOperations(): Promise<never> {
    return refuse();
  }
  getOperation(): Promise<never> {
    return refuse();
  }
  listAudit(): Promise<never> {
    return refuse();
  }
  verifyAudit(): Promise<never> {
    return refuse();
  }
  async *exportAudit(): AsyncGenerator<never> {
    yield await refuse();
  }
  requestTemplateBuild(): Promise<never> {
    return refuse();
  }
  startTemplateBuild(): Promise<never> {
    return refuse();
  }
  getTemplateBuild(): Promise<never> {
    return refuse();
  }
  getTemplate(): Promise<never> {
    return refuse();
  }
  deleteTemplate(): Promise<never> {
    return refuse();
  }
  tagTemplate(): Promise<never> {
    return refuse();
  }
  untagTemplate(): Promise<never> {
    return refuse();
  }
  getTemplateFile(): Promise<never> {
    return refuse();
  }
  putTemplateFile(): Promise<never> {
    return refuse();
  }
  getNetwork(): Promise<never> {
    return refuse();
  }
  setNetwork(): Promise<never> {
    return refuse();
  }
  setPrivateHosts(): Promise<never> {
    return refuse();
  }
  getWebhook(): Promise<never> {
    return refuse();
  }
  setWebhook(): Promise<never> {
    return refuse();
  }
  removeWebhook(): Promise<never> {
    return refuse();
  }
  listApprovals(): Promise<never> {
    return refuse();
  }
  getApproval(): Promise<never> {
    return refuse();
  }
  approveRequest(): Promise<never> {
    return refuse();
  }
  getSealingKey(): Promise<never> {
    return refuse();
  }
  listVaults(): Promise<never> {
    return refuse();
  }
  createVault(): Promise<never> {
    return refuse();
  }
  getVault(): Promise<never> {
    return refuse();
  }
  updateVault(): Promise<never> {
    return refuse();
  }
  rotateVaultKey(): Promise<never> {
    return refuse();
  }
  revokeVault(): Promise<never> {
    return refuse();
  }
  reinstateVault(): Promise<never> {
    return refuse();
  }
  deleteVault(): Promise<never> {
    return refuse();
  }
  listSecrets(): Promise<never> {
    return refuse();
  }
  setSecret(): Promise<never> {
    return refuse();
  }
  deleteSecret(): Promise<never> {
    return refuse();
  }
  listSecretBindings(): Promise<never> {
    return refuse();
  }
  setSecretBinding(): Promise<never> {
    return refuse();
  }
  deleteSecretBinding(): Promise<never> {
    return refuse();
  }
  denyRequest(): Promise<never> {
    return refuse();
  }
  listEgress(): Promise<never> {
    return refuse();
  }
  setLimits(): Promise<never> {
    return refuse();
  }
  getLimits(): Promise<never> {
    return refuse();
  }
  async *listEvents(): AsyncGenerator<never> {
    yield await refuse();
  }
  getMetrics(): Promise<never> {
    return refuse();
  }
  createSchedule(): Promise<never> {
    return refuse();
  }
  listSchedules(): Promise<never> {
    return refuse();
  }
  getSchedule(): Promise<never> {
    return refuse();
  }
  updateSchedule(): Promise<never> {
    return refuse();
  }
  deleteSchedule(): Promise<never> {
    return refuse();
  }
  connectPort(): Promise<never> {
    return refuse();
  }
  exportSandbox(): Promise<never> {
    return refuse();
  }
  async *followExport(): AsyncGenerator<never> {
    yield await refuse();
  }
  listArchives(): Promise<never> {
    return refuse();
  }
  deleteArchive(): Promise<never> {
    return refuse();
  }
  moveSandbox(): Promise<never> {
    return refuse();
  }
  undoMove(): Promise<never> {
    return refuse();
  }
  importSandbox(): Promise<never> {
    return refuse();
  }
  createShare(): Promise<never> {
    return refuse();
  }
  listShares(): Promise<never> {
    return refuse();
  }
  revokeShare(): Promise<never> {
    return refuse();
  }
  listProjects(): Promise<never> {
    return refuse();
  }
  createProject(): Promise<never> {
    return refuse();
  }
  getProject(): Promise<never> {
    return refuse();
  }
  updateProject(): Promise<never> {
    return refuse();
  }
  deleteProject(): Promise<never> {
    return refuse();
  }
  updateOrganisation(): Promise<never> {
    return refuse();
  }
  listKeys(): Promise<never> {
    return refuse();
  }
  createKey(): Promise<never> {
    return refuse();
  }
  revokeKey(): Promise<never> {
    return refuse();
  }
  listOrganisations(): Promise<never> {
    return refuse();
  }
  createOrganisation(): Promise<never> {
    return refuse();
  }
}

async function refuse(): Promise<never> {
  throw new AppError('forbidden', 'There are no tenants here.');
}
